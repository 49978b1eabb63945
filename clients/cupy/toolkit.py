"""Names nvcc to CuPy, and the toolkit, of which NVIDIA's packages on PyPI have the parts."""

import os
import pathlib

import nvidia.cu13

os.environ.setdefault("CUDA_PATH", list(nvidia.cu13.__path__)[0])
os.environ.setdefault("NVCC", str(pathlib.Path(__file__).parent / "nvcc"))
