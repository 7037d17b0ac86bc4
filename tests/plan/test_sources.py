"""The files that a build reads: GitHub's path filters for them, and the packages that a change rebuilds."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.plan.rules import judge
from ci_compiler.plan.sources import (
    locks_of,
    path_filters,
    read_by,
    rebuilt_packages,
    shared_patterns,
    shared_stem,
)
from ci_compiler.spec.model import Spec
from tests.plan.test_open_matrix import COMMAND, X86, document
from tests.specs import matrix, small, spec_of


def scripted(sources: dict[str, list[str]], needs: dict[str, list[Any]] | None = None) -> Spec:
    """Packages with build scripts `ci/NAME.sh` and these sources."""
    packages: dict[str, Any] = {
        name: {
            "command": {**COMMAND, "build": f"ci/{name}.sh", **({"sources": given} if given else {})},
            "needs": (needs or {}).get(name, []),
        }
        for name, given in sources.items()
    }
    return spec_of(document({"values": {"platform": X86}}, packages))


@pytest.mark.parametrize(
    ("pattern", "read", "unread"),
    [
        ("src", ["src", "src/a", "src/a/b"], ["srcs", "a/src", "src2/a"]),
        ("src/*.c", ["src/.c", "src/a.c", "src/a.c/x"], ["src/a/b.c", "src/a.cc", "src/abc"]),
        ("src/**/x.h", ["src/x.h", "src/a/x.h", "src/a/b/x.h"], ["src/ax.h", "x.h"]),
        ("**/x.h", ["x.h", "a/x.h", "a/b/x.h"], ["ax.h", "xxh"]),
        ("**.c", ["a.c", "a/b.c"], ["a.h"]),
        ("src**/x.h", ["src/x.h", "src2/x.h", "src/a/x.h"], ["srcx.h"]),
    ],
)
def test_a_source_reads_what_githubs_filter_matches(pattern: str, read: list[str], unread: list[str]) -> None:
    package = scripted({"ext": [pattern]}).packages["ext"]
    assert list(read_by(package, [*read, *unread])) == read


@pytest.mark.parametrize("pattern", ["src/a?.c", "src/a+.c", "src/[ab].c", "!src/docs"])
def test_a_source_has_no_other_sign_of_githubs_filters(pattern: str) -> None:
    with pytest.raises(InputError, match=r"where . and .. stand for names as in GitHub's filters"):
        scripted({"ext": [pattern]})


def test_the_build_script_is_read_as_well_and_without_sources_everything_but_the_workflows() -> None:
    spec = scripted({"all": [], "some": ["src"]})
    paths = ["a", ".github/x", "src/a", "ci/some.sh", "ci/all.sh", ".githubs/x", "x/.github/y"]
    found = {name: list(read_by(package, paths)) for name, package in spec.packages.items()}
    assert found == {"all": [path for path in paths if path != ".github/x"], "some": ["src/a", "ci/some.sh"]}


def test_path_filters_have_each_pattern_of_the_packages_once_and_the_spec_at_the_end() -> None:
    spec = scripted({"a": ["src", "a/*.c"], "b": ["src"], "c": []})
    of_a = ["src", "src/**", "a/*.c", "a/*.c/**", "ci/a.sh", "ci/a.sh/**"]
    assert path_filters(spec, ["a"]) == [*of_a, "ci-matrix.yaml"]
    assert path_filters(spec, ["a", "b"]) == [*of_a, "ci/b.sh", "ci/b.sh/**", "ci-matrix.yaml"]
    assert path_filters(spec, ["c"]) == ["**", "!.github/**", "ci-matrix.yaml"]
    recipes = spec_of(small())
    assert path_filters(recipes, recipes.packages) == ["ci-matrix.yaml"]


@pytest.mark.parametrize(
    ("changed", "rebuilt"),
    [
        ([], {}),
        (["README.md", ".github/x"], {}),
        (["c/z", "c/a"], {"c": "c/a"}),
        (["b/x"], {"b": "b/x", "c": "b/x"}),
        (["a/x"], {"a": "a/x", "b": "a/x", "c": "a/x"}),
        (["c/x", "a/x"], {"a": "a/x", "b": "a/x", "c": "c/x"}),
    ],
)
def test_a_change_rebuilds_what_reads_it_and_what_is_built_after_that(
    changed: list[str], rebuilt: dict[str, str]
) -> None:
    edges: dict[str, list[Any]] = {"b": ["a"], "c": [{"package": "b", "platform": X86}]}
    spec = scripted({name: [name] for name in "abc"}, edges)
    assert rebuilt_packages(spec, changed) == rebuilt


@pytest.mark.parametrize(
    ("target", "package", "stem"),
    [
        ("sm90", {}, "pytorch-python313-cuda12_8"),
        ("cpu", {}, "pytorch-python313-cpu"),
        ("sm90", {"recipes": {"*-cpu-*": "own"}}, "pytorch-python313-cuda12_8"),
        ("cpu", {"recipes": {"*-cpu-*": "own"}}, ""),
        ("cpu", {"self-contained": True}, ""),
    ],
)
def test_a_thin_recipe_reads_what_others_share(target: str, package: dict[str, Any], stem: str) -> None:
    given = small(**matrix(gpus={target: {"isas": ["avx2"]}}))
    given["packages"]["pytorch"] |= package
    spec = spec_of(given)
    (cell,) = judge(spec).cells
    patterns = (f".flox/ci-compiler/{stem}*.nix", ".flox/ci-compiler/shell/*.nix") if stem else ()
    assert shared_patterns(spec, cell, cell.variants[0]) == patterns
    assert not stem or shared_stem(cell, "pytorch") == f".flox/ci-compiler/{stem}"


@pytest.mark.parametrize(
    ("recipes", "pinned", "has"), [("own", False, True), ("own", True, False), ("compiled", True, False)]
)
def test_own_recipes_without_a_pin_are_built_from_the_lock_files(recipes: str, pinned: bool, has: bool) -> None:
    given = small(packages={"pytorch": {"recipes": recipes}}, **matrix(gpus={"cpu": {"isas": ["avx2"]}}))
    given["branches"]["main"]["versions"].pop("torchvision")
    if not pinned:
        del given["branches"]["main"]["nixpkgs"], given["branches"]["main"]["nixpkgs-hash"]
    spec = spec_of(given)
    (cell,) = judge(spec).cells
    lock, catalogs = (".flox/env/manifest.lock", ".flox/nix-builds.lock")
    assert locks_of(spec, cell, cell.variants[0]) == ((lock, catalogs) if has else ())
