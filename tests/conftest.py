"""What every test runs under: a cache of its own, fixed examples, no GPU unless asked for.

Tests that are not marked begin no processes, and none forks pytest: an audit hook refuses. What
ran, and how long it took, is written to the file that MDTENSOR_TEST_OUTCOMES names, for
`python -m tests.outcomes`.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import os
import re
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

# OpenBLAS reads these when NumPy is first imported, and takes another processor's kernels.
for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(variable, None)

# What tests of kernels compute is computed by kernels; tests of the evaluator ask for it, and by
# this variable the pages' examples do, which show what users see.
os.environ["MDTENSOR_TIER0"] = os.environ.get("MDTENSOR_TEST_TIER0", "0")

import hypothesis  # noqa: E402
import pytest  # noqa: E402

GOLDEN = Path(__file__).parent / "golden"

# A machine that is busy for a moment draws slowly.
IN_ANY_TIME = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("ci", **IN_ANY_TIME, derandomize=True, database=None)
hypothesis.settings.register_profile("local", **IN_ANY_TIME)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--gpu",
        action="store_true",
        default=os.environ.get("MDTENSOR_TEST_GPU") == "1",
        help="run the tests marked gpu too; a missing device fails them",
    )
    parser.addoption(
        "--gpus",
        action="store_true",
        default=os.environ.get("MDTENSOR_TEST_GPUS") == "1",
        help="run the tests marked gpus; fewer than two devices fail them",
    )
    parser.addoption(
        "--cross",
        action="store_true",
        help="run the tests marked cross; a missing emulator or compiler fails them",
    )
    parser.addoption(
        "--all-cases", action="store_true", help="run all cases of the tests marked sampled"
    )
    parser.addoption(
        "--share",
        type=float,
        default=1.0,
        help="run about this share of the tests, chosen by a hash of their names",
    )
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files under tests/golden"
    )
    parser.addoption(
        "--record",
        action="store_true",
        help="write this machine and the outcome to docs/machines.md",
    )


def heed_interrupts() -> None:
    """Lets SIGINT interrupt this process and its children, where what began it ignores the signal.

    Shells without job control begin so what they leave in the background, and Python then raises no
    KeyboardInterrupt.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    heed_interrupts()
    spreads = config.getoption("numprocesses", None)  # to workers of xdist, each with its own
    if spreads or "MDTENSOR_CACHE_DIR" in os.environ:
        return
    # Threads of engines may keep kernels there until the process ends.
    folder = tempfile.TemporaryDirectory(prefix="mdtensor-tests-", ignore_cleanup_errors=True)
    os.environ["MDTENSOR_CACHE_DIR"] = folder.name
    config.add_cleanup(folder.cleanup)
    config.add_cleanup(lambda: os.environ.pop("MDTENSOR_CACHE_DIR"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    if config.getoption("dist") != "loadfile":
        return None
    from tests.fixed_files import FixedFiles

    return FixedFiles(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.suffix != ".py":
        return None
    # --doctest-modules is for mdtensor: what lies here beside the tests is theirs to import.
    if not collection_path.name.startswith("test_"):
        return True
    # A run of the tests of one marker imports no file that does not name it.
    wanted = re.match(r"process\b|campaign\b|gpus?\b|cross\b", config.getoption("markexpr"))
    is_without = wanted and f"mark.{wanted[0]}" not in collection_path.read_text(encoding="utf-8")
    return True if is_without else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_wanted = {
        "gpu": config.getoption("--gpu"),
        "gpus": config.getoption("--gpus") or (config.getoption("--gpu") and not missing_gpu(2)),
        "cross": config.getoption("--cross"),
    }
    left_out = {
        item
        for marker, wanted in is_wanted.items()
        for item in items
        if not wanted and item.get_closest_marker(marker)
    }
    if not config.getoption("--all-cases"):
        left_out.update(_beyond_samples(items))
    share = config.getoption("--share")
    left_out.update(item for item in items if _hash(item)[0] >= 256 * share)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _beyond_samples(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Cases of tests marked `sampled` beyond the count of the mark, by a hash of their names."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for found in cases.values():
        (count,) = next(found[0].iter_markers("sampled")).args
        yield from sorted(found, key=_hash)[count:]


def _hash(item: pytest.Item) -> bytes:
    return hashlib.sha256(item.nodeid.encode()).digest()


_FORKS = {"os.fork", "os.forkpty"}
_PROCESSES = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"}
_MAY_BEGIN_PROCESSES = ("process", "campaign", "gpu", "gpus", "cross")
_running, _is_quiet = "", False  # the test that is, and whether it may begin no process


def _refuse_processes(event: str, _: object) -> None:
    if event in _FORKS and _running:
        raise AssertionError(f"{_running} forks pytest: let a program fork, by tests/children.py")
    if event in _PROCESSES and _is_quiet:
        raise AssertionError(f"{_running} begins a process ({event}): mark it `process`")


sys.addaudithook(_refuse_processes)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _running, _is_quiet
    _running = item.nodeid
    is_test = isinstance(item, pytest.Function)  # and no example of the documentation
    _is_quiet = is_test and not any(map(item.get_closest_marker, _MAY_BEGIN_PROCESSES))
    try:
        return (yield)
    finally:
        _running, _is_quiet = "", False


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a file leaves behind is not looked through again by each collection of garbage."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = os.environ.get("MDTENSOR_TEST_OUTCOMES")
    if path and "PYTEST_XDIST_WORKER" not in os.environ:
        row = [report.nodeid, report.when, report.outcome, round(report.duration, 3)]
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, count in (("gpu", 1), ("gpus", 2)):
        if item.get_closest_marker(marker) and (reason := missing_gpu(count)):
            pytest.fail(f"no CUDA device for a test marked {marker}: {reason}", pytrace=False)


@functools.cache
def missing_gpu(count: int) -> str:
    """Why so many CUDA devices cannot be used, or an empty string."""
    try:
        import cupy

        found = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy raises its own classes, which are unknown here
        return f"{type(error).__name__}: {error}"
    return "" if found >= count else f"{found} of {count} devices were found"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if not config.getoption("--record"):
        return
    from tests.machines import record, run_here

    passed, *failed = (
        len(terminalreporter.getreports(outcome)) for outcome in ("passed", "failed", "error")
    )
    asked = " ".join(config.invocation_params.args).replace("--record", "").strip()
    record(run_here(asked or "all", passed, sum(failed), on_gpu=config.getoption("--gpu")))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a file under tests/golden; --update-golden writes the file instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"{path} is missing: run pytest with --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return compare
