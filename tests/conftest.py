"""Settings for all tests.

In CI hypothesis draws the same examples each time, so that a failure there is the fault of the change.
"""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from functools import cache
from itertools import chain, groupby, zip_longest
from pathlib import Path
from typing import Final

import httpx
import pytest
from hypothesis import HealthCheck, settings

from tests.support.examples import FACTOR

# Tests start some hundred processes, and each would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What a shell has set for a server of its own must not reach those of tests.
os.environ.pop("APF_RUNTIME_DIR", None)
os.environ.pop("APF_TOKEN", None)

# A shell without job control starts `make test &` with SIGINT ignored, and so would be all processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Each client would read the certificates of all authorities, which takes 20 ms.
setattr(httpx._transports.default, "create_ssl_context", cache(httpx.create_ssl_context))  # noqa: B010 - not public

# Objects of modules and tests live until the end, so the garbage collector looks at them in vain.
gc.disable()

settings.register_profile(
    "local",
    deadline=None,
    max_examples=round(50 * FACTOR),
    suppress_health_check=[HealthCheck.too_slow],  # on a busy machine everything is slow
)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

_LONG: Final = ("property", "simulation", "differential")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each of several processes begin with another part of each folder.

    All of them read all tests. In a clean clone they would all compile the same modules at the same time.
    """
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and isinstance(collector, pytest.Dir) and report.result:
        first = len(report.result) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        report.result = report.result[first:] + report.result[:first]
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Alternate files that start servers, and mostly wait, with files that compute; short files come last.

    Only where several processes share the tests: each takes the next file when it has finished one, and must know the
    same order.
    """
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path)
        files = [list(group) for _, group in groupby(items, key=lambda item: item.path)]
        folders = [file[0].path.relative_to(config.rootpath).parts[1] for file in files]
        waiting = [file for file, folder in zip(files, folders, strict=True) if folder == "e2e"]
        computing = [file for file, folder in zip(files, folders, strict=True) if folder in _LONG]
        short = [file for file, folder in zip(files, folders, strict=True) if folder not in {"e2e", *_LONG}]
        order = chain.from_iterable(zip_longest(waiting, computing, fillvalue=[]))
        items[:] = chain.from_iterable([*order, *short])


def pytest_collection_finish() -> None:
    """Spare the garbage collector a look at all modules and tests; otherwise each full collection takes 0.2 s.

    It looks at the objects of tests more seldom than by default: after 700 new ones, it took a twentieth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture
def directory() -> Iterator[Path]:
    """Return a directory for sockets, whose path may not be as long as that of ``tmp_path``."""
    with tempfile.TemporaryDirectory(prefix="apf-") as folder:
        yield Path(folder)
