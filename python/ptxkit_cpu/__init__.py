"""The CPU device of ptxkit: programs that use CUDA run on a machine without a GPU.

    ptxkit-cpu exec -- python -m pytest

runs a program with the CPU device in the place of NVIDIA's driver.
"""

import os
import sys
from pathlib import Path

#: The program `ptxkit`.
PROGRAM = Path(__file__).parent / "bin" / "ptxkit"
#: The folder with `libcuda.so.1`, for `LD_LIBRARY_PATH`.
DRIVER = PROGRAM.parent / "cpu-driver"


def _become(name):
    os.execv(PROGRAM, [name, *sys.argv[1:]])


def main():
    """`ptxkit-cpu`: the program `ptxkit`."""
    _become("ptxkit")


def ptxas():
    """`ptxkit-ptxas`: takes the place of `ptxas`."""
    _become("ptxkit-ptxas")
