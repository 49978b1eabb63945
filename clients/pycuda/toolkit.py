"""Names nvcc to PyCUDA: one that writes PTX where PyCUDA asks for a cubin."""

import os
import pathlib

import nvidia.cu13

os.environ.setdefault("CUDA_PATH", list(nvidia.cu13.__path__)[0])
os.environ["PATH"] = f"{pathlib.Path(__file__).parent.parent / 'cupy'}:{os.environ['PATH']}"
