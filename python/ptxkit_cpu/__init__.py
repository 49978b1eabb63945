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


def _become(name, arguments):
    os.execv(PROGRAM, [name, *arguments])


def main():
    """`ptxkit-cpu`: the program `ptxkit`, whose `exec` runs programs on the CPU device."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["exec"]:
        # A `--device` behind it wins.
        arguments[1:1] = ["--device", "cpu"]
    _become("ptxkit", arguments)


def ptxas():
    """`ptxkit-ptxas`: takes the place of `ptxas`."""
    _become("ptxkit-ptxas", sys.argv[1:])
