"""Settings for all tests: neither a slow machine nor the way in which they are started makes a test fail."""

import gc
import signal
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import HealthCheck, settings

from tests.checkers.tools import lacking

usual = settings.get_profile(settings.get_current_profile_name())
settings.register_profile("any-machine", usual, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

# A shell starts a background command with SIGINT ignored, and programs inherit that. They do not inherit a handler.
signal.signal(signal.SIGINT, signal.default_int_handler)

# As commands do. Searches for garbage are a third of the time in which ten thousand tests are collected.
gc.set_threshold(100_000)

# libyaml reads the same values in a tenth of the time.
yaml.safe_load = partial(yaml.load, Loader=yaml.CSafeLoader)


FIRST = (
    "tests/e2e/",
    "tests/faults/",
    "tests/runner_images/",
    "tests/runner/",
    "tests/sync/",
    "tests/test_documents.py",
    "tests/test_compiled_files.py",
    "tests/test_release.py",
    "tests/documents/",
    "tests/github_model/",
)
"""The tests whose files take longest. They begin first, so that no process ends long after the others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Moves the slow files to the front, in the order of `FIRST`; each process does the same."""
    items.sort(key=lambda item: next((at for at, name in enumerate(FIRST) if item.nodeid.startswith(name)), len(FIRST)))


OpenFolder = Callable[[], Path]


@pytest.fixture(scope="session")
def open_folder() -> Iterator[OpenFolder]:
    """Makes folders that other users may enter. Each start of pytest on the machine closes those of all others."""
    with TemporaryDirectory(prefix="ci-compiler-tests-", ignore_cleanup_errors=True) as root:
        Path(root).chmod(0o755)
        names = map(str, count())

        def make() -> Path:
            folder = Path(root, next(names))
            folder.mkdir()
            folder.chmod(0o755)
            return folder

        yield make


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Ends with one line about the tests that were skipped for want of a tool, if there are any."""
    reasons = [one.longrepr[2] for one in terminalreporter.stats.get("skipped", ()) if isinstance(one.longrepr, tuple)]
    if line := lacking(reasons):
        terminalreporter.write_line(line, yellow=True)
