import os
import pathlib
import shutil
import sys

# Kernels in Triton that this repository has for the linter too.
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "crates/ptxcheck/ecosystem"))

# Triton runs ptxas by name: for compute capability 9.0 and later by the second.
if ptxas := shutil.which("ptxkit-ptxas"):
    os.environ.setdefault("TRITON_PTXAS_PATH", ptxas)
    os.environ.setdefault("TRITON_PTXAS_BLACKWELL_PATH", ptxas)
