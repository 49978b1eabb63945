"""What numba-cuda's tests find in a file beside its package, which pip does not install."""

import pytest


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    request.cls._dump_failed_filechecks = False
