"""Arrays of numpy in device memory, by the driver alone: Triton needs no more of a framework."""

import ctypes

import numpy
import triton

_driver = ctypes.CDLL("libcuda.so.1")


def call(entry, *arguments):
    status = getattr(_driver, entry)(*arguments)
    if status:
        text = ctypes.c_char_p()
        _driver.cuGetErrorName(status, ctypes.byref(text))
        raise RuntimeError(f"{entry}: {(text.value or b'?').decode()}")


class Buffer:
    """What Triton takes for a tensor: something with `dtype` and `data_ptr`. `dtype` is Triton's
    name of a type that numpy lacks, of which the array holds the bits."""

    def __init__(self, array, dtype=None):
        # Triton makes the context current.
        triton.runtime.driver.active.get_current_device()
        self.array = numpy.ascontiguousarray(array)
        self.dtype = dtype or {"bool": "i1", "float16": "fp16", "float32": "fp32", "float64": "fp64"}.get(
            str(self.array.dtype), str(self.array.dtype).replace("uint", "u").replace("int", "i")
        )
        self.address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(self.array.nbytes))
        call("cuMemcpyHtoD_v2", self.address, self.array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(self.array.nbytes))

    def data_ptr(self):
        return self.address.value

    def read(self):
        """The array as it is on the device, after all work is done."""
        call("cuCtxSynchronize")
        read = numpy.empty_like(self.array)
        call("cuMemcpyDtoH_v2", read.ctypes.data_as(ctypes.c_void_p), self.address, ctypes.c_size_t(read.nbytes))
        return read

    def __del__(self):
        _driver.cuMemFree_v2(self.address)


class Shifted:
    """A buffer from some bytes on."""

    def __init__(self, buffer, bytes):
        self.buffer, self.dtype, self.bytes = buffer, buffer.dtype, bytes

    def data_ptr(self):
        return self.buffer.data_ptr() + self.bytes
