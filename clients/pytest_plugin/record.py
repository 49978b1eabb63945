"""A pytest plugin for `clients/run`: writes each outcome at once, so that those before a
crash are known, and leaves out tests that have one."""

import json
import os
import signal
import time

import pytest
from _pytest.runner import runtestprotocol

FAULTS = ["ILLEGAL_ADDRESS", "LAUNCH_FAILED", "MISALIGNED_ADDRESS", "ILLEGAL_INSTRUCTION", "CUDA_ERROR_ASSERT"]
PATH = os.environ["PTXKIT_CLIENT_OUTCOMES"]
FOLDER = os.getcwd()
# Seconds that a test on the driver that does nothing may take, in a process of its own.
ALONE = int(os.environ.get("PTXKIT_CLIENT_ALONE", 0))
# Of a suite that runs for hours, each so many-th test.
EVERY = int(os.environ.get("PTXKIT_CLIENT_EVERY", 1))


def name_of(item):
    """The test's name, without the folder of the environment or of the tests."""
    return item.nodeid.rpartition("site-packages/")[2].replace(f"{FOLDER}/", "")


def write(name, outcome, why=""):
    with open(PATH, "a") as file:
        file.write(json.dumps([name, outcome, why]) + "\n")


def pytest_collection_modifyitems(config, items):
    config.hook.pytest_deselected(items=[item for at, item in enumerate(items) if at % EVERY])
    items[:] = items[::EVERY]
    with open(PATH) as file:
        done = {json.loads(line)[0] for line in file}
    config.hook.pytest_deselected(items=[item for item in items if name_of(item) in done])
    items[:] = [item for item in items if name_of(item) not in done]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """What crashes or hangs without a driver takes no other test with it."""
    if not ALONE:
        return None
    child = os.fork()
    if child == 0:
        runtestprotocol(item, nextitem=nextitem, log=False)
        os._exit(0)
    end = time.monotonic() + ALONE
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.005)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    write(name_of(item), "crash")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    why = report.longrepr
    if report.skipped:
        why = why[2] if isinstance(why, tuple) else getattr(report, "wasxfail", "")
    elif report.failed and hasattr(why, "reprcrash") and why.reprcrash:
        why = why.reprcrash.message
    if report.when == "call" or report.outcome != "passed":
        write(name_of(item), report.outcome, " ".join(str(why or "").split())[:600])
    if report.failed and any(fault in str(report.longrepr) for fault in FAULTS):
        # The fault stays with the context: `clients/run` goes on in a new process.
        os._exit(3)
    return report


def pytest_collectreport(report):
    if report.failed:
        write(name_of(report), "failed", " ".join(str(report.longrepr).split())[-600:])
