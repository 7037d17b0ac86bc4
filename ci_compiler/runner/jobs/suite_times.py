"""The recorded times of a suite's tests: a file of the repository, made of JUnit files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.judgement import CheckVerdict
from ci_compiler.outside import bytes_of, object_of
from ci_compiler.runner.jobs import shard_plugin
from ci_compiler.runner.jobs.junit import read_junit

_LARGEST, _MOST_SECONDS = 20_000_000, 1e6
"""The most bytes of the file, and the longest time that a test may have."""


def read_times(path: Path) -> dict[str, float]:
    """The recorded times by test; {} without a file. Raises InputError for one of another form."""
    try:
        found = object_of(bytes_of(path, _LARGEST))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise wrong(path, Code.WRONG_VALUE, f"cannot be read: {error}") from None
    if not all(type(seconds) in {int, float} and 0 <= seconds < _MOST_SECONDS for seconds in found.values()):
        raise wrong(path, Code.WRONG_VALUE, "is no mapping of tests to seconds; `ci-runner suite-times` writes it")
    return {str(test): float(seconds) for test, seconds in found.items()}


def measured(reports: Iterable[Path]) -> dict[str, float]:
    """The times of the tests that ran in the JUnit files `reports`, the longest of each. Raises OSError."""
    found: dict[str, float] = {}
    for report in reports:
        for result in read_junit(report):
            if result.verdict is not CheckVerdict.SKIPPED:
                found[result.check] = max(found.get(result.check, 0.0), round(result.seconds, 2))
    return found


def written(times: Mapping[str, float]) -> str:
    """The text of the file, a line for each test."""
    return f"{json.dumps(times, indent=1, sort_keys=True)}\n"


def dividing(folder: Path, times: Path, shard: tuple[int, int], plugins: str = "") -> dict[str, str]:
    """The variables by which pytest runs the tests of `shard` alone, if it can import from `folder`, which is made.

    `plugins` are those that it loads already (its PYTEST_PLUGINS). Raises InputError if the recorded times have another
    form.
    """
    folder.mkdir()
    (folder / "times.json").write_text(written(read_times(times)), "utf-8")
    plugin = shutil.copy(shard_plugin.__file__, folder / "ci_suite_shards.py")
    return {
        shard_plugin.TIMES: str(folder / "times.json"),
        shard_plugin.SHARD: str(shard[0]),
        shard_plugin.SHARDS: str(shard[1]),
        shard_plugin.DONE: str(folder / "divided"),
        "PYTEST_PLUGINS": ",".join(filter(None, [plugins, Path(plugin).stem])),
    }


def was_divided(folder: Path) -> bool:
    """Whether pytest has divided the tests with the plugin in `folder`."""
    return (folder / "divided").exists()
