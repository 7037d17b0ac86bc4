"""Which modules are mutated, and the fast tests that must notice: the nearest first, so that most runs end soon."""

from __future__ import annotations

EXAMPLES = "tests/test_examples.py"
FAULTS = ("tests/faults/test_refused.py", "tests/faults/test_killed.py")

SUBJECTS: dict[str, tuple[str, ...]] = {
    "ci_compiler/rules.py": ("tests/test_rules.py", EXAMPLES, "tests/test_bundled.py"),
    "ci_compiler/routing.py": ("tests/test_routing.py", EXAMPLES),
    "ci_compiler/sharding.py": ("tests/test_sharding.py", EXAMPLES),
    "ci_compiler/output.py": ("tests/test_output.py", "tests/test_cli.py", *FAULTS),
    "ci_compiler/disk.py": ("tests/test_output.py", *FAULTS),
    "ci_compiler/matrix.py": ("tests/test_rules.py", "tests/test_bundled.py", EXAMPLES),
    "ci_compiler/patterns.py": ("tests/test_patterns.py", EXAMPLES),
    "ci_compiler/selection.py": ("tests/test_selection.py",),
    "ci_compiler/workflows/render.py": ("tests/workflows/test_limits.py", EXAMPLES),
    "ci_compiler/workflows/github.py": ("tests/workflows/test_limits.py", EXAMPLES),
}
