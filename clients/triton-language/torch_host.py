"""A plugin of pytest: PyTorch without CUDA as the framework of Triton's own tests.

Tensors are the host's. Where Triton asks for the address of one, its memory is registered with
the driver (`cuMemHostRegister`), so that kernels reach exactly its bytes; at the end of each test
that ends. Each launch is waited for, because PyTorch reads the memory without asking the driver.

`ptxkit-ptxas` in PATH takes the place of ptxas.
"""

import contextlib
import ctypes
import functools
import os
import pathlib
import shutil
import sys
import types

import pytest
import torch

sys.path.append(str(pathlib.Path(__file__).parents[1] / "triton"))
from device import call

CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76

# Storages that kernels reach, by address: they stay alive until the test ends.
_registered = {}
_data_ptr = torch.Tensor.data_ptr


def _attribute(which):
    value = ctypes.c_int()
    call("cuDeviceGetAttribute", ctypes.byref(value), which, 0)
    return value.value


@functools.cache
def _context():
    """Makes the primary context current, as PyTorch with CUDA does."""
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)


def _address(tensor):
    storage = tensor.storage()
    first, size = storage.data_ptr(), storage.nbytes()
    if size and first not in _registered:
        _context()
        call("cuMemHostRegister_v2", ctypes.c_void_p(first), ctypes.c_size_t(size), 0)
        _registered[first] = storage
    return _data_ptr(tensor)


def _on_host(function):
    """The function of PyTorch, with the host for a device of CUDA."""

    def host(device):
        return "cpu" if str(device).startswith("cuda") else device

    @functools.wraps(function)
    def called(*arguments, **options):
        if "device" in options:
            options["device"] = host(options["device"])
        # `Tensor.to("cuda")`.
        arguments = [host(each) if isinstance(each, (str, torch.device)) else each for each in arguments]
        return function(*arguments, **options)

    return called


def _also_for_half(function):
    """The function of PyTorch, by `float32` where the host has none for halves."""

    def convert(value, dtype, to):
        return value.to(to) if isinstance(value, torch.Tensor) and value.dtype == dtype else value

    @functools.wraps(function)
    def called(*arguments, **options):
        try:
            return function(*arguments, **options)
        except RuntimeError as error:
            if "not implemented for 'Half'" not in str(error):
                raise
            arguments = [convert(each, torch.float16, torch.float32) for each in arguments]
            return convert(function(*arguments, **options), torch.float32, torch.float16)

    return called


def _waited(launch):
    def launched(*arguments, **options):
        result = launch(*arguments, **options)
        call("cuCtxSynchronize")
        return result

    return launched


def pytest_configure():
    # Triton runs ptxas by name: for compute capability 9.0 and later by the second.
    if ptxas := shutil.which("ptxkit-ptxas"):
        os.environ.setdefault("TRITON_PTXAS_PATH", ptxas)
        os.environ.setdefault("TRITON_PTXAS_BLACKWELL_PATH", ptxas)
    torch.Tensor.data_ptr = _address
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor
    torch.Tensor.to = _on_host(torch.Tensor.to)
    for name in ("arange empty empty_like empty_strided full full_like linspace ones ones_like rand rand_like randint "
                 "randn randn_like randperm tensor zeros zeros_like").split():
        setattr(torch, name, _on_host(getattr(torch, name)))
    for owner, names in (torch, "matmul unique"), (torch.Tensor, "__matmul__ unique"):
        for name in names.split():
            setattr(owner, name, _also_for_half(getattr(owner, name)))

    stream = types.SimpleNamespace(cuda_stream=0)
    for name, value in {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: (_context(), 0)[1],
        "set_device": lambda device: None,
        "get_device_capability": lambda device=0: (_attribute(CAPABILITY_MAJOR), _attribute(CAPABILITY_MINOR)),
        "get_device_name": lambda device=0: "CPU device",
        "current_stream": lambda device=0: stream,
        "synchronize": lambda device=0: call("cuCtxSynchronize"),
        "device": lambda device: contextlib.nullcontext(),
    }.items():
        setattr(torch.cuda, name, value)

    from triton.backends.nvidia.driver import CudaLauncher

    CudaLauncher.__call__ = _waited(CudaLauncher.__call__)
    _context()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
    while _registered:
        first, _ = _registered.popitem()
        call("cuMemHostUnregister", ctypes.c_void_p(first))
