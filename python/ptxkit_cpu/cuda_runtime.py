"""The CUDA runtime for `cuda.bindings.runtime`.

That package has NVIDIA's static runtime in it, which runs on NVIDIA's driver alone. Importing
this module, before `cuda.bindings.runtime`, puts the functions of the shared runtime
(`libcudart.so.13`) in their place: those of `LD_LIBRARY_PATH`, which `ptxkit-cpu exec` sets.
"""

import ctypes

from cuda.bindings import cyruntime


def replace():
    """Replaces the functions that other modules take from `cyruntime` when they are imported."""
    runtime = ctypes.CDLL("libcudart.so.13")
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_void_p, [ctypes.py_object]
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    functions = cyruntime.__pyx_capi__
    for name, function in functions.items():
        if found := getattr(runtime, name, None):
            # The name of a capsule is the function's signature, of which none changes.
            functions[name] = new(ctypes.cast(found, ctypes.c_void_p), name_of(function), None)


replace()
