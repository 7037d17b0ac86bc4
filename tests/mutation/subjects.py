"""The modules to mutate and the fast tests that must notice, the closest tests first so that most runs end early."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = "tests/test_examples.py"
FAULTS = ("tests/faults/test_refused.py", "tests/faults/test_killed.py")

SUBJECTS: dict[str, tuple[str, ...]] = {
    "ci_compiler/plan/rules.py": ("tests/plan/test_rules.py", EXAMPLES, "tests/test_bundled.py"),
    "ci_compiler/spec/references.py": ("tests/spec/test_references.py", EXAMPLES),
    "ci_compiler/plan/routing.py": ("tests/plan/test_routing.py", EXAMPLES),
    "ci_compiler/plan/sharding.py": ("tests/plan/test_sharding.py", EXAMPLES),
    "ci_compiler/files/drift.py": ("tests/files/test_drift.py", "tests/cli/test_cli.py", *FAULTS),
    "ci_compiler/files/atomic.py": ("tests/files/test_drift.py", *FAULTS),
    "ci_compiler/plan/matrix.py": (
        "tests/plan/test_matrix.py",
        "tests/plan/test_rules.py",
        "tests/test_bundled.py",
        EXAMPLES,
    ),
    "ci_compiler/spec/patterns.py": ("tests/spec/test_patterns.py", EXAMPLES),
    "ci_compiler/plan/selection.py": ("tests/plan/test_selection.py",),
    "ci_compiler/workflows/render.py": ("tests/workflows/test_limits.py", EXAMPLES),
    "ci_compiler/plan/limits.py": ("tests/workflows/test_limits.py", EXAMPLES),
}

PARTS = ("plan", "spec", "recipes", "sync", "backends", "publishing")
"""The parts of which each module has a test file of its own, which finds most of its mutants alone."""


def modules() -> list[str]:
    """The paths of all modules of `PARTS` with code, without the files that starters give to users."""
    paths = (path for part in PARTS for path in (ROOT / "ci_compiler" / part).rglob("*.py"))
    found = (path.relative_to(ROOT).as_posix() for path in sorted(paths) if path.name != "__init__.py")
    return [path for path in found if "/starters/" not in path]


def own_test(module: str) -> str:
    """The path of the test file of a module: `tests/plan/test_rules.py` for `ci_compiler/plan/rules.py`."""
    path = PurePosixPath(module)
    return str(PurePosixPath("tests", *path.parts[1:-1], f"test_{path.name}"))


@cache
def equivalents() -> dict[str, dict[str, str]]:
    """The mutants that change nothing a test could notice: by module, what each changes, with the reason."""
    return tomllib.loads((ROOT / "tests/mutation/equivalent.toml").read_text("utf-8"))
