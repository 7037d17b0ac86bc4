"""What a spec compiles to on every branch."""

from __future__ import annotations

from ci_compiler.documents import build_matrix
from ci_compiler.plan.pipeline import plan
from ci_compiler.sync.compiled import compile_files
from ci_compiler.workflows.render import render
from tests.specs import small, spec_of


def test_all_workflows_and_the_matrix_are_compiled() -> None:
    decided = plan(spec_of(small()))
    files = dict(compile_files(decided))
    assert files.pop(".github/BUILD_MATRIX.md") == build_matrix.text(decided)
    assert files == render(decided.spec, decided.shards)
    assert {shard.path for shard in decided.shards} < files.keys()
