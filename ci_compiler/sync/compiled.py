"""Everything under `.github/` that a spec compiles to, on every branch: the workflows and BUILD_MATRIX.md."""

from __future__ import annotations

from collections.abc import Mapping

from ci_compiler.documents import build_matrix
from ci_compiler.plan.pipeline import Plan
from ci_compiler.workflows.render import render


def compile_files(plan: Plan) -> Mapping[str, str]:
    """The text of every file by its path from the repository's root. Raises InputError if any file exceeds a limit."""
    return {**render(plan.spec, plan.shards), build_matrix.PATH: build_matrix.text(plan)}
