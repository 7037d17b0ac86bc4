"""The end of a failed job: the error, cut out of its log, and the commands that reproduce it on another machine."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from ci_compiler.hardware.families import facts, files_of
from ci_compiler.plan.job_graph import with_needs
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.register import BY_HAND as GUIDE
from ci_compiler.runner.jobs.summary import VARIABLE, add_text
from ci_compiler.secret import HIDDEN, hide_secrets
from ci_compiler.spec.model import Spec
from ci_compiler.variant import variant_name

ONTO = "CI_CHECKED_OUT_ONTO"
"""The variable in which `ci-runner checkout` leaves, for the later steps of its job, what it checked out."""

BEFORE, AFTER, TAIL = 8, 12, 20
"""How many lines an excerpt has before and after the line of the error, or from the end of a log without one."""

_WIDTH = 400
"""The most characters of a line in an excerpt."""

_SIGNS = (
    # The machine: what follows is only its consequence.
    r"No space left on device|\b[Oo]ut of memory\b|virtual memory exhausted|std::bad_alloc|Killed signal terminated",
    # A crash.
    r"Segmentation fault|core dumped|Fatal Python error|Illegal instruction",
    # Compilers, linkers and CMake. A compiler names a place, which sets it apart from the programs that call it.
    (
        r"(?::\d+|\(\d+\)): (?:fatal |catastrophic )?error\b|(?:^|> )error\[E\d+\]|\b(?:@compilers@) (?:fatal|error)\b"
        r"|undefined reference to|multiple definition of|cannot find -l|undefined symbol|CMake Error"
    ),
    # pytest, and Python's exceptions: their last lines.
    r"^E   +\S",
    r"^(?:\S+> )?\s*(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:: |$)",
    # Programs that call others.
    r"^(?:\S+> )?(?:FAILED: |ninja: error|make(?:\[\d+\])?: \*\*\*)",
    r"^(?:\S+> )?(?:error|fatal|ERROR): ",
)
"""What the line of an error looks like: the first pattern that matches any line decides, by the first such line."""


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """`_SIGNS`, with the compilers of the families."""
    compilers = [word for family in files_of("words.json") for word in facts(family, "words").get("compilers", ())]
    return tuple(re.compile(sign.replace("@compilers@", "|".join(compilers))) for sign in _SIGNS)


_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


def _line(*words: str) -> str:
    return shlex.join(words)


def commands(spec: Spec, built: BuiltVariant, commit: str, test: str = "") -> Iterator[str]:
    """The commands that check `commit` out, build the variant with what it needs, and run `test`, a command ('': none).

    They are those of the guide "Build and test one by hand". A commit that `ci-runner checkout` made is made again.
    `commit` is '' if it is unknown.
    """
    branch = built.cell.branch
    source, onto, *_ = [*os.environ.get(ONTO, "").split(" "), "", ""]
    made = bool(_COMMIT.fullmatch(source) and onto)
    if first := source if made else commit:
        yield _line("git", "fetch", "origin", first)
        yield _line("git", "checkout", first)
    if made:
        yield _line("git", "fetch", "origin", onto.partition("..")[0])
        yield _line("ci-runner", "checkout", "--branch", branch, "--onto", onto)
    own = (package for package in with_needs(spec, [built.variant.package]) if not package.repository)
    for name in (variant_name(package.name, built.cell.suffix) for package in own):
        yield _line("ci-runner", "build", name, "--branch", branch)
    if test:
        yield test


def smoke_command(name: str, stage: str) -> str:
    """The command that tests the build of `name`."""
    return _line("ci-runner", "smoke", name, "--stage", stage, "--manifest", "build-output/manifest.json")


def suite_command(name: str, suite: str, shard: str) -> str:
    """The command that runs a shard of a suite with the build of `name`."""
    where = ("--suite", suite, "--shard", shard)
    return _line("ci-runner", "suite", name, *where, "--manifest", "build-output/manifest.json")


def report_failure(name: str, lines: Sequence[str], logs: Iterable[Path]) -> None:
    """Shows the error in the first of `logs` that is not empty, and `lines`, the commands that reproduce it.

    They go to standard error and to the summary. Does nothing outside a job of GitHub: there, the user has just typed
    the commands.
    """
    if not os.environ.get(VARIABLE):
        return
    log = next((path for path in logs if path.is_file() and path.stat().st_size), None)
    parts = {f"To reproduce it on a machine of your own ({GUIDE}):": list(lines)}
    if log:
        with log.open(encoding="utf-8", errors="replace") as file:
            parts = {f"The error in {log.name}:": [*map(_shown, excerpt(file))]} | parts
    sys.stdout.flush()
    for heading, shown in parts.items():
        # The margin keeps GitHub's runner from reading a line of a log as a command of its own.
        print(heading, *(f"| {line}" for line in shown), sep="\n", file=sys.stderr)
    add_text(f"{name} failed", parts)


def excerpt(log: Iterable[str]) -> list[str]:
    """The lines of `log` around its error, as `_SIGNS` finds it; the last lines of a log without one."""
    before: deque[str] = deque(maxlen=TAIL)
    found: list[str] = []
    best, left = len(_patterns()), 0
    for raw in log:
        line = _COLOUR.sub("", raw.rstrip("\r\n"))[: 4 * _WIDTH]
        rank = next((at for at, sign in enumerate(_patterns()[:best]) if sign.search(line)), best)
        if rank < best:
            best, found, left = rank, [*[*before][-BEFORE:], line], AFTER
        elif left:
            found.append(line)
            left -= 1
        before.append(line)
    return found or [*before]


def _shown(line: str) -> str:
    """`line` without secrets, the name of this machine and control characters."""
    text = hide_secrets(line)
    host = platform.node()
    for name in filter(None, (host, host.partition(".")[0])):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", HIDDEN, text)
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"
