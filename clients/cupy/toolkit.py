"""Names nvcc to CuPy, and the toolkit, of which NVIDIA's packages on PyPI have the parts; forgets errors
between tests."""

import contextlib
import ctypes
import os
import pathlib

import nvidia.cu13

os.environ.setdefault("CUDA_PATH", list(nvidia.cu13.__path__)[0])
os.environ.setdefault("NVCC", str(pathlib.Path(__file__).parent / "nvcc"))


def pytest_runtest_teardown():
    """Forgets the runtime's last error. CUB takes the one that a failed test left for its own and
    launches nothing, which CuPy does not notice: the next test reads what the memory held before."""
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcudart.so.13").cudaGetLastError()
