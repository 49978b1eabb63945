import os
import shutil

# Triton runs ptxas by name: for compute capability 9.0 and later by the second.
if ptxas := shutil.which("ptxkit-ptxas"):
    os.environ.setdefault("TRITON_PTXAS_PATH", ptxas)
    os.environ.setdefault("TRITON_PTXAS_BLACKWELL_PATH", ptxas)
