"""Gives `cuda.bindings` the shared CUDA runtime in each Python of a suite: those that its tests
start are not children that a plugin of pytest knows."""

import contextlib

# The driver that does nothing has no runtime beside it.
with contextlib.suppress(ImportError, OSError):
    import ptxkit_cpu.cuda_runtime  # noqa: F401
