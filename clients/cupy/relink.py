#!/usr/bin/env python3
"""Links CuPy with the shared CUDA runtime.

    relink.py SOURCES PYTHON LIBRARIES

CuPy's wheels have NVIDIA's static runtime in five of their modules. This builds the five from
CuPy's own sources of that version, linked with `libcudart.so.13`, and puts them in the place of
those that PYTHON has installed. Their device code is PTX for `compute_80`.

SOURCES is CuPy's source distribution, unpacked; LIBRARIES has `libcudart.so.13` and
`libnvrtc.so.13`. PYTHON has CuPy, NumPy, Cython and NVIDIA's packages with nvcc and the headers
of the runtime, of NVRTC and of cuRAND. Needs g++.
"""

import json
import os
import pathlib
import subprocess
import sys

# The modules with the runtime, the device code of each, and what it is linked with besides.
MODULES = {
    "cupy_backends/cuda/api/runtime": (None, []),
    "cupy/cuda/jitify": (None, ["-l:libnvrtc.so.13"]),
    "cupy/random/_generator_api": ("cupy/random/cupy_distributions.cu", []),
    "cupy/cuda/thrust": ("cupy/cuda/cupy_thrust.cu", []),
    "cupy/cuda/cub": ("cupy/cuda/cupy_cub.cu", []),
}
# As `cupy_builder` of CuPy's sources has them.
DIRECTIVES = ["embedsignature=True", "c_api_binop_methods=True", "binding=False", "warn.deprecated.IF=False",
              "freethreading_compatible=True"]  # fmt: skip
CONSTANTS = ["CUPY_USE_CUDA_PYTHON=False", "CUPY_HIP_VERSION=0", "CUPY_CUDA_VERSION=13000"]
MACROS = ["_FORCE_INLINES=1", 'CYTHON_EXTERN_C=extern "C"', "NPY_TARGET_VERSION=NPY_2_0_API_VERSION",
          "JITIFY_PRINT_LOG=0"]  # fmt: skip
CCCL = "cupy/_core/include/cupy/_cccl"
# What is asked of the Python that has CuPy: all its modules have to have one key.
ASKED = """
import json, nvidia.cu13, numpy, sysconfig
from cupy._core.core import CUPY_CACHE_KEY
print(json.dumps({
    "site": sysconfig.get_path("platlib"), "suffix": sysconfig.get_config_var("EXT_SUFFIX"),
    "toolkit": list(nvidia.cu13.__path__)[0], "key": CUPY_CACHE_KEY,
    "headers": [sysconfig.get_path("include"), numpy.get_include()],
}))
"""


def main():
    sources, python, libraries = (pathlib.Path(name).absolute() for name in sys.argv[1:])
    environ = os.environ | {"LD_LIBRARY_PATH": str(libraries)}
    answer = subprocess.run([python, "-c", ASKED], check=True, stdout=subprocess.PIPE, text=True, env=environ)
    has = json.loads(answer.stdout)
    toolkit, site = pathlib.Path(has["toolkit"]), pathlib.Path(has["site"])
    folders = [*has["headers"], toolkit / "include", f"{CCCL}/cub", f"{CCCL}/thrust", f"{CCCL}/libcudacxx",
               "cupy/_core/include"]  # fmt: skip
    headers = [f"-I{folder}" for folder in folders]
    macros = [f"-D{macro}" for macro in [*MACROS, f"CUPY_CACHE_KEY={has['key']}"]]

    def run(*command):
        print(" ".join(str(word) for word in command[:1] + command[-3:]), flush=True)
        subprocess.run(command, cwd=sources, check=True)

    for name, (device, linked) in MODULES.items():
        module, objects = site / f"{name}{has['suffix']}", [f"{name}.o"]
        directives = [word for directive in DIRECTIVES for word in ("-X", directive)]
        constants = [word for constant in CONSTANTS for word in ("-E", constant)]
        run(python, "-m", "cython", "-3", "--cplus", *directives, *constants, f"{name}.pyx", "-o", f"{name}.cpp")
        run("g++", "-O1", "-fPIC", "-std=c++17", "-w", *macros, *headers, "-c", f"{name}.cpp", "-o", objects[0])
        if device:
            objects.append(f"{device}.o")
            run(toolkit / "bin/nvcc", "-gencode", "arch=compute_80,code=compute_80", "-std=c++17", "-w",
                "--expt-relaxed-constexpr", "-Xcompiler", "-fPIC", *macros, *headers,
                "-c", device, "-o", objects[1])  # fmt: skip
        built = module.with_suffix(".new")
        run("g++", "-shared", *objects, f"-L{libraries}", "-l:libcudart.so.13", *linked, "-o", built)
        os.replace(built, module)


main()
