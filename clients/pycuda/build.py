#!/usr/bin/env python3
"""Builds PyCUDA from its sources.

    build.py SOURCES PYTHON LIBRARIES

PyPI has no wheels of PyCUDA. SOURCES is its source distribution, unpacked; PYTHON has NVIDIA's
packages with nvcc and the headers; LIBRARIES has `libcuda.so.1` and `libcudart.so.13`. Needs g++.
"""

import os
import pathlib
import subprocess
import sys
import tempfile


def main():
    sources, python, libraries = (pathlib.Path(name).absolute() for name in sys.argv[1:])
    asked = [python, "-c", "import numpy, nvidia.cu13 as nvidia; print(*nvidia.__path__, numpy.get_include(), sep='\\n')"]
    told = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    toolkit, numpy = map(pathlib.Path, told)
    with tempfile.TemporaryDirectory() as folder:
        # The linker looks for names without versions.
        links = {"libcuda.so": libraries / "libcuda.so.1", "libcudart.so": libraries / "libcudart.so.13",
                 "libcurand.so": toolkit / "lib/libcurand.so.10"}  # fmt: skip
        for name, file in links.items():
            pathlib.Path(folder, name).symlink_to(file.resolve())
        environ = os.environ | {
            "PATH": f"{toolkit / 'bin'}:{os.environ['PATH']}",
            "CPATH": f"{toolkit / 'include'}:{numpy}",
            "LIBRARY_PATH": folder,
            "LDFLAGS": f"-Wl,-rpath,{toolkit / 'lib'} -Wl,--no-as-needed",
        }
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", sources]
        subprocess.run(pip, check=True, env=environ)


main()
