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

from tests.checkers.tools import absent, lacking

usual = settings.get_profile(settings.get_current_profile_name())
settings.register_profile("any-machine", usual, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

# A shell starts a background command with SIGINT ignored, and programs inherit that. They do not inherit a handler.
signal.signal(signal.SIGINT, signal.default_int_handler)

# As commands do. Searches for garbage are a third of the time in which ten thousand tests are collected.
gc.set_threshold(100_000)

# libyaml reads the same values in a tenth of the time.
yaml.safe_load = partial(yaml.load, Loader=yaml.CSafeLoader)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds what chooses tests, and the files by which two runs share them."""
    group = parser.getgroup("ci-compiler")
    group.addoption("--everything", action="store_true", help="run the slow tests as well")
    group.addoption("--weekly", action="store_true", help="run everything, and what only the weekly run does")
    group.addoption("--passed", type=Path, metavar="FILE", help="write the names of the tests that passed to FILE")
    group.addoption("--but", type=Path, metavar="FILE", help="leave out the tests that FILE names")
    group.addoption("--name-tools", action="store_true", help="fail if a test is skipped for anything but a tool")


def pytest_configure(config: pytest.Config) -> None:
    """Watches the reports, in the process that prints them."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Watch(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what this run does not ask for, and puts fast tests first; each process does the same.

    With `--everything` the slow files begin first instead, so that no process ends long after the others.
    """
    weekly = bool(config.getoption("--weekly"))
    everything = weekly or bool(config.getoption("--everything"))
    but = config.getoption("--but")
    done = set(but.read_text("utf-8").splitlines()) if but else set()
    named = [argument for argument in config.invocation_params.args if "::" in str(argument)]

    def asked(item: pytest.Item) -> bool:
        if item.nodeid in done or (item.get_closest_marker("weekly") and not weekly and not named):
            return False
        return everything or bool(named) or not slow(item)

    left_out = [item for item in items if not asked(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    slow_files = {item.path for item in items if slow(item)}
    items[:] = sorted(filter(asked, items), key=lambda item: (item.path in slow_files) != everything)


def slow(item: pytest.Item) -> bool:
    """Whether a test belongs to those that only `--everything` runs."""
    return item.get_closest_marker("slow") is not None


class Watch:
    """Says what is missing before the first test, and after the last one what was not run and how to run it."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.passed: list[str] = []
        self.unnamed: list[str] = []

    def pytest_sessionstart(self) -> None:
        """Says which tools are missing."""
        if line := absent():
            self._write(line)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps the names of tests that passed, and of those that were skipped without naming a tool."""
        if report.when == "call" and report.passed:
            self.passed.append(report.nodeid)
        if report.skipped and isinstance(report.longrepr, tuple) and not lacking([report.longrepr[2]]):
            self.unnamed.append(f"{report.nodeid}: {report.longrepr[2]}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Writes the names of what passed. A skip without a tool's name is a failure, where that was asked for."""
        if file := self.config.getoption("--passed"):
            file.write_text("".join(f"{name}\n" for name in self.passed), "utf-8")
        if self.unnamed and self.config.getoption("--name-tools") and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Ends with the tests that lack a tool, and with how to run the slow ones."""
        skipped = terminalreporter.stats.get("skipped", ())
        if line := lacking([one.longrepr[2] for one in skipped if isinstance(one.longrepr, tuple)]):
            self._write(line)
        if self.config.getoption("--name-tools"):
            for line in self.unnamed:
                self._write(f"skipped without the name of a tool: {line}")
        if not self.config.getoption("--everything"):
            self._write("slow tests were left out: `python -m pytest --everything` runs them as well")

    def _write(self, line: str) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, pytest.TerminalReporter)
        reporter.write_line(line, yellow=True)


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
