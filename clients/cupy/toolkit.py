"""Names NVIDIA's packages to CuPy, which looks for nvcc in a toolkit alone."""

import os

import nvidia.cu13

os.environ.setdefault("CUDA_PATH", list(nvidia.cu13.__path__)[0])
