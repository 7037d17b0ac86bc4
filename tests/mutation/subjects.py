"""The modules to mutate and the fast tests that must notice, the closest tests first so that most runs end early."""

from __future__ import annotations

EXAMPLES = "tests/test_examples.py"
FAULTS = ("tests/faults/test_refused.py", "tests/faults/test_killed.py")

SUBJECTS: dict[str, tuple[str, ...]] = {
    "ci_compiler/plan/rules.py": ("tests/plan/test_rules.py", EXAMPLES, "tests/test_bundled.py"),
    "ci_compiler/spec/references.py": ("tests/spec/test_references.py", EXAMPLES),
    "ci_compiler/plan/routing.py": ("tests/plan/test_routing.py", EXAMPLES),
    "ci_compiler/plan/sharding.py": ("tests/plan/test_sharding.py", EXAMPLES),
    "ci_compiler/files/drift.py": ("tests/files/test_drift.py", "tests/cli/test_cli.py", *FAULTS),
    "ci_compiler/files/atomic.py": ("tests/files/test_drift.py", *FAULTS),
    "ci_compiler/plan/matrix.py": ("tests/plan/test_rules.py", "tests/test_bundled.py", EXAMPLES),
    "ci_compiler/spec/patterns.py": ("tests/spec/test_patterns.py", EXAMPLES),
    "ci_compiler/plan/selection.py": ("tests/plan/test_selection.py",),
    "ci_compiler/workflows/render.py": ("tests/workflows/test_limits.py", EXAMPLES),
    "ci_compiler/plan/limits.py": ("tests/workflows/test_limits.py", EXAMPLES),
}
