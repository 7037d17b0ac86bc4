"""A spec and its expansion are one: they compile to the same bytes."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.errors import InputError
from ci_compiler.plan.document import document
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import BUNDLED, STARTERS, expanded_value, parse_spec
from ci_compiler.spec.shorthand.branch import ShortBranch
from ci_compiler.spec.shorthand.keys import GpuAxis, ShortMatrix
from ci_compiler.sync.compiled import compile_files
from tests.spec.published import assert_published
from tests.specs import documents, errors_in, matrix, small

EXAMPLES = Path(__file__).parents[2] / "examples"
SPECS = {
    "bundled": BUNDLED,
    **{path.parent.name: path for path in sorted(EXAMPLES.glob("good/*/ci-matrix.yaml"))},
    **{f"starter {path.parents[1].name}": path for path in sorted(STARTERS.glob("*/.github/ci-matrix.yaml"))},
}
SHORT_KEYS = {"gpus", "isas", "python"}


def printed(*words: str) -> str:
    """What the command prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(PROGRAM, list(words))
    assert code == 0, err.getvalue()
    return out.getvalue()


def outcome(text: str, root: Path) -> dict[str, str]:
    """All that a spec compiles to, by path or command: workflows, documents, recipes, and the plan without places."""
    (root / ".github").mkdir(parents=True)
    (root / ".github/ci-matrix.yaml").write_text(text, encoding="utf-8")
    spec = parse_spec(text.encode(), shown=".github/ci-matrix.yaml")
    found = {"stdout": printed("--root", str(root)).replace(str(root), "ROOT")}
    found["plan"] = re.sub(r'"place": ".*"', '"place": ""', printed("plan", "--json", "--root", str(root)))
    found["forecast"] = printed("forecast", "--root", str(root))
    written = spec.backend.has_recipes and not any(package.template for package in spec.packages.values())
    for branch in spec.branches if written else ():
        printed("recipes", "--branch", branch, "--root", str(root))
        found |= {f"{branch} {path.name}": path.read_text("utf-8") for path in (root / ".flox").rglob("*.nix")}
    files = (path for path in (root / ".github").rglob("*") if path.is_file() and path.name != "ci-matrix.yaml")
    return found | {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in files}


def expansion(text: str, root: Path) -> str:
    """The expanded form of a spec, as the command prints it."""
    (root / ".github").mkdir(parents=True)
    (root / ".github/ci-matrix.yaml").write_text(text, encoding="utf-8")
    return printed("plan", "--expanded", "--root", str(root))


def matrices(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    owners = [value, *value["packages"].values()]
    return [owner["matrix"] for owner in owners if owner and "matrix" in owner]


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_and_its_expansion_compile_to_the_same_bytes(name: str, tmp_path: Path) -> None:
    text = SPECS[name].read_text("utf-8")
    rows = expansion(text, tmp_path / "short")
    value = yaml.safe_load(rows)
    assert not any(SHORT_KEYS & one.keys() for one in matrices(value))
    assert not any("python" in branch for branch in value["branches"].values())
    assert outcome(rows, tmp_path / "rows") == outcome(text, tmp_path / "text")


def test_an_expansion_is_its_own_expansion(tmp_path: Path) -> None:
    once = expansion(BUNDLED.read_text("utf-8"), tmp_path / "once")
    assert expansion(once, tmp_path / "twice") == once


def test_the_schema_has_the_short_keys() -> None:
    assert_published(GpuAxis, ShortBranch, ShortMatrix)


@settings(max_examples=25, deadline=None)
@given(documents())
def test_any_short_spec_and_its_expansion_have_the_same_plan(document_: dict[str, Any]) -> None:
    text = json.dumps(document_)
    try:
        short = plan(parse_spec(text.encode(), shown="ci-matrix.yaml"))
    except InputError:
        return
    rows = json.dumps(expanded_value(short.spec))
    long = plan(parse_spec(rows.encode(), shown="ci-matrix.yaml"))
    assert without_places(document(long)) == without_places(document(short))
    assert compile_files(long) == compile_files(short)


def without_places(value: Any) -> Any:
    return json.loads(re.sub(r'"place": "[^"]*"', '"place": ""', json.dumps(value)))


def findings(**changes: Any) -> list[tuple[str, str, str]]:
    """The code, the message and the beginning of the text at the place of each error."""
    given_ = small(**changes)
    text = json.dumps(given_)
    return [(one.code, one.message, text[one.place.column - 1 :][:12]) for one in errors_in(given_)]


@pytest.mark.parametrize(
    ("changed", "code", "message", "there"),
    [
        (matrix(gpus={"sm90": {}, "sm9": {}}), "unknown-gpu", "unknown GPU 'sm9'", '"sm9": {}}'),
        (matrix(gpus={"cpu": {"isas": ["avx9"]}}), "unknown-isa", "unknown ISA 'avx9'", '"avx9"'),
        (
            matrix(gpus={"sm61": {"cuda": ["12.8"], "isas": ["armv9"]}}),
            "gpu-host",
            "sm61 with armv9 on main",
            '"armv9"',
        ),
        (matrix(gpus={"cpu": {"also": {"mian": ["avx"]}}}), "unknown-branch", "did you mean main?", '"mian"'),
        (matrix(isas={"x86_64-linux": []}), "empty-matrix", "list an ISA, such as avx2", '{"x86_64-li'),
        (matrix(values={"python": "3.13"}), "wrong-value", "`gpus` has no effect beside", '"gpus"'),
        (
            {"branches": {"main": {"versions": {"pytorch": "2.8.0", "torchvision": "0.23.0"}, "nixpkgs": "0" * 40}}},
            "unused-gpu",
            "no variant is built for sm90: no branch has a toolkit; write `cuda: VERSION` in one",
            '"sm90"',
        ),
    ],
)
def test_what_is_wrong_in_the_short_form_is_said_where_it_stands(
    changed: dict[str, Any], code: str, message: str, there: str
) -> None:
    assert any(
        (one, at.startswith(there)) == (code, True) and message in said for one, said, at in findings(**changed)
    ), findings(**changed)
