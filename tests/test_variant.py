"""The grammar of variant names, alone and in every command that takes or gives one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci_compiler.adoption.adopt import adopt
from ci_compiler.adoption.audit import Audited, audit
from ci_compiler.adoption.axes import Ground, matrix_of
from ci_compiler.adoption.exclusions import VariantKey
from ci_compiler.github.status import BuildOutcome, ReportedJob, read_jobs
from ci_compiler.hardware import CPU, tables
from ci_compiler.plan.lookup import explain
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.recipes.render import recipes
from ci_compiler.reports.offers import Wishes
from ci_compiler.reports.select import select
from ci_compiler.runner.targets import find
from ci_compiler.spec.patterns import matcher_of_any
from ci_compiler.sync.compiled import compile_files
from ci_compiler.variant import VariantName, recipe_name, recipe_path
from tests.adoption.helpers import needs_nix
from tests.reports.machines import Case
from tests.specs import UNKNOWN_PIN, small, spec_of

PACKAGES = ("torch", "torch-audio", "flash-attn", "llama-cpp_2")
CELL = "python313-cuda12_8-sm90-avx2"

packages = st.from_regex(r"\A[A-Za-z]([A-Za-z0-9_-]{0,38}[A-Za-z0-9_])?\Z")
pythons = st.integers(0, 99).map("3.{}".format)
toolkits = st.tuples(st.integers(0, 99), st.integers(0, 99)).map(lambda pair: f"{pair[0]}.{pair[1]}")


@given(packages, pythons, toolkits, st.sampled_from([CPU, *tables().gpus]), st.sampled_from([*tables().isas]))
def test_a_name_is_parsed_into_what_it_was_made_of(package: str, python: str, cuda: str, gpu: str, isa: str) -> None:
    name = VariantName(package=package, python=python, toolkit="" if gpu == CPU else cuda, target=gpu, isa=isa)
    assert VariantName.parse(str(name)) == name
    assert recipe_name(recipe_path(str(name))) == str(name)


@given(st.text() | st.from_regex(r"[a-z-]*python3\d*-(cpu|cuda\d*_\d*-\w*)-\w*"))
def test_parsing_is_total_and_gives_nothing_away(text: str) -> None:
    found = VariantName.parse(text)
    assert found is None or str(found) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        CELL,
        f"-{CELL}",
        "torch-python3-cpu-avx2",
        "torch-python313-avx2",
        "torch-python313-cpu-",
        "torch-python313-cuda12_8-cpu-avx2",
        "torch-python313-cuda12-sm90-avx2",
        "torch-python313-sm90-avx2",
        f"torch-{CELL}-patched",
        f"torch-{CELL}\n",
        "torch-python٣١٣-cpu-avx2",
    ],
)
def test_texts_that_are_not_names(text: str) -> None:
    assert VariantName.parse(text) is None


# A fleet whose packages have dashes, and whose names begin with one another.


def document(**changes: Any) -> dict[str, Any]:
    versions = {name: f"{index}.0" for index, name in enumerate(PACKAGES)}
    return small(
        branches={"main": {"cuda": "12.8", "nixpkgs": UNKNOWN_PIN, "versions": versions}},
        packages={name: {"needs": ["torch"] if name != "torch" else []} for name in PACKAGES},
        **changes,
    )


@pytest.fixture(scope="module")
def fleet() -> Plan:
    return plan(spec_of(document()))


def test_every_variant_is_explained_under_its_own_package(fleet: Plan) -> None:
    for package in PACKAGES:
        (built,) = explain(fleet, f"{package}-{CELL}").built
        assert (built.variant.package, built.recipe) == (package, f".flox/pkgs/{package}-{CELL}.nix")
        assert find(fleet.spec, built.variant.name).variant == built.variant
    assert fleet.spec.packages[built.variant.package].needs == ("torch",)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (f"flash-atn-{CELL}", "unknown package 'flash-atn'; did you mean flash-attn?"),
        ("flash-attn-python313-cpu-armv8.2", "write flash-attn-python313-cpu-armv8_2"),
        ("flash-attn-python313-cpu-avx5.12", "unknown ISA 'avx5.12'; did you mean avx512"),
        ("flash-attn-python313-cuda12_8-h100-avx2", "unknown GPU 'h100'"),
        ("flash-attn-python313-cuda12_9-sm90-avx2", "no branch builds with CUDA 12.9; did you mean 12.8?"),
        ("flash-attn-x", "'flash-attn-x' is not a variant's name"),
    ],
)
def test_an_unknown_part_of_a_name_is_named(fleet: Plan, name: str, said: str) -> None:
    assert said in explain(fleet, name).unknown


def test_an_absent_variant_says_which_axis_lacks_it(fleet: Plan) -> None:
    (absent,) = explain(fleet, "flash-attn-python312-cpu-avx2").absent
    assert absent.reason == "Python 3.12 is not in the matrix"


def test_an_exclusion_is_recorded_for_the_package_that_it_names() -> None:
    exclude = [{"variants": "torch-audio-*-sm90-avx2", "because": "it is slow"}]
    compiled = plan(spec_of(document(matrix=small()["matrix"] | {"exclude": exclude})))
    (absent,) = explain(compiled, f"torch-audio-{CELL}").absent
    assert "it is slow" in absent.reason
    assert explain(compiled, f"torch-{CELL}").built


def test_a_shard_watches_the_recipes_of_its_own_packages(fleet: Plan) -> None:
    shard = yaml.safe_load(compile_files(fleet)[".github/workflows/build-main-sm90.yml"])
    paths = shard[True]["push"]["paths"]
    recipes = [f".flox/pkgs/{package}-python313-cuda12_8-sm90-*.nix" for package in PACKAGES]
    shared = [f".flox/ci-compiler/{package}-python313-cuda12_8*.nix" for package in PACKAGES]
    assert paths == [*recipes, shared[0], ".flox/ci-compiler/shell/*.nix", *shared[1:]]


def test_a_dashed_package_is_recommended_and_installed_with_what_it_needs(fleet: Plan) -> None:
    machine = Case(gpu="H100", cpu="avx2", driver="", best=None, branch="").machine
    choice = select(fleet.spec, fleet.judged.cells, machine, Wishes(package="flash-attn"))
    assert choice.best is not None
    assert choice.best.name == f"flash-attn-{CELL}"
    assert choice.install == (f"flox install my-org/torch-{CELL} my-org/flash-attn-{CELL}",)


def test_status_tells_packages_apart(fleet: Plan) -> None:
    (shard,) = (shard for shard in fleet.shards if shard.target == "sm90")
    cell = next(cell for cell, _ in shard.cells if cell.isa == "avx2")
    jobs = [ReportedJob(name=f"{shard.job_name(cell)} / torch-audio / build", status="completed", conclusion="failure")]
    (last,) = read_jobs(shard, jobs, url="", started="")
    assert (last.variant.name, last.result) == (f"torch-audio-{CELL}", BuildOutcome.FAILED)


def test_one_version_on_two_branches_is_reported_for_its_own_package() -> None:
    twice = document(matrix=small()["matrix"] | {"gpus": {"cpu": {}}})
    other = json.loads(json.dumps(twice["branches"]["main"]))
    other["versions"] |= {"torch": "9.0", "flash-attn": "9.0", "llama-cpp_2": "9.0"}
    twice["branches"]["other"] = other | {"cuda": "12.9"}
    with pytest.raises(Exception, match="torch-audio-python313-cpu-avx2 and 1 more would have") as told:
        plan(spec_of(twice))
    assert len(told.value.findings) == 1  # type: ignore[attr-defined]


# Adoption.


def checkout(root: Path, compiled: Plan) -> Path:
    for path, text in recipes(compiled.spec, compiled.judged, "main").items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    return root


@needs_nix
def test_a_fleet_with_dashes_is_adopted_and_audited_clean(tmp_path: Path, fleet: Plan) -> None:
    root = checkout(tmp_path / "main", fleet)
    found = adopt([root])
    assert found.findings == ()
    assert found.names["main"] == {variant.name for cell in fleet.judged.cells for variant in cell.variants}
    assert set(found.spec.packages) == set(PACKAGES)
    assert audit(root, fleet.spec, "main") == Audited(defects=(), differences=())


@needs_nix
def test_an_audit_reads_the_toolkit_in_a_dashed_name(tmp_path: Path, fleet: Plan) -> None:
    root = checkout(tmp_path / "main", fleet)
    right = root / f".flox/pkgs/flash-attn-{CELL}.nix"
    right.rename(right.with_name(f"flash-attn-{CELL.replace('12_8', '12_6')}.nix"))
    told = {cause.code: cause.message for cause in audit(root, fleet.spec, "main").defects}
    assert told["cuda-in-name"] == "its name says CUDA 12.6; main has 12.8"
    assert told["missing-recipe"].startswith(f"flash-attn-{CELL} is in the spec")


def test_an_adopted_exclusion_does_not_take_out_a_package_with_a_longer_name() -> None:
    keys = [
        VariantKey("main", package, "3.13", "" if gpu == CPU else "12.8", gpu, isa)
        for package in ("torch", "torch-audio")
        for gpu in (CPU, "sm80", "sm90")
        for isa in ("avx", "avx2", "avx512")
        if (package, gpu) != ("torch", "sm90")
    ]
    packages = {"torch": ("main",), "torch-audio": ("main",)}
    ground = Ground(kits={"main": ("12.8",)}, pythons={"main": ("3.13",)}, packages=packages, hardware=tables())
    matrix = matrix_of(keys, ground)
    patterns = [row["variants"] for row in matrix["exclude"]]
    assert patterns == ["torch-python*-sm90-*"]
    out = matcher_of_any(patterns)
    assert out("torch-python313-cuda12_8-sm90-avx2")
    assert not out("torch-audio-python313-cuda12_8-sm90-avx2")
