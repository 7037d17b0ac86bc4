"""Matrices of public projects, as specs in `examples/good`: exactly the variants that the projects build.

The facts are small tables of this test, taken from the projects' own workflows in the autumn of 2026.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.plan.document import document
from ci_compiler.plan.joins import builds
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.sharding import Shard
from ci_compiler.plan.suites import Bench, bench_of, legs, suites_of
from ci_compiler.spec.build import load_spec
from ci_compiler.workflows.called import SUITES
from ci_compiler.workflows.shard import workflow
from tests.specs import spec_of

GOOD = Path(__file__).parents[1] / "examples/good"
Row = tuple[str, ...]


def planned(name: str) -> Plan:
    path = GOOD / name / "ci-matrix.yaml"
    return plan(load_spec(path, shown=name))


def cells(name: str) -> Iterator[tuple[str, Cell, Mapping[str, str]]]:
    for cell in planned(name).judged.cells:
        for variant in cell.variants:
            yield variant.package, cell, cell.axes


PLATFORMS = {"x86_64-linux": "x86_64", "aarch64-linux": "aarch64"}


def flash_attention() -> list[Row]:
    """torch 2.6 has the old ABI as well and no ARM, CUDA 13 came with 2.9."""
    torches = {"2.6.0": "x", "2.7.1": "xa", "2.8.0": "xa", "2.9.1": "xa", "2.10.0": "xa"}
    return [
        (torch, cuda, python, abi, {"x": "x86_64", "a": "aarch64"}[arch])
        for torch, archs in torches.items()
        for cuda in (["12.9", "13.0"] if torch in {"2.9.1", "2.10.0"} else ["12.9"])
        for python in ("3.10", "3.11", "3.12", "3.13")
        for abi in (["FALSE", "TRUE"] if torch == "2.6.0" else ["TRUE"])
        for arch in archs
    ]


def test_flash_attention_has_56_wheels() -> None:
    found = [
        (axes["torch"], axes["toolkit"], axes["python"], axes["cxx11abi"], PLATFORMS[axes["platform"]])
        for _, _, axes in cells("flash-attention")
    ]
    assert len(found) == 56
    assert sorted(found) == sorted(flash_attention())


HF = {
    "aarch64-darwin": ["cpu", "metal"],
    "aarch64-linux": ["cpu", "cu126", "cu130", "cu132"],
    "x86_64-linux": ["cpu", "cu126", "cu130", "cu132", "rocm71", "rocm72"],
}


def test_a_compliant_kernel_has_26_variants_with_the_names_of_the_project() -> None:
    names = [cell.suffix for _, cell, _ in cells("hf-kernels")]
    wanted = [
        "-".join(filter(None, (torch, "cxx11" if "linux" in system else "", backend, system)))
        for system, backends in HF.items()
        for torch, backend in product(("torch212", "torch213"), backends)
    ]
    wanted += ["torch212-cxx11-xpu20253-x86_64-linux", "torch213-cxx11-xpu20260-x86_64-linux"]
    assert len(names) == 26
    assert sorted(names) == sorted(wanted)


LLAMA = """\
llama-bin aarch64-darwin metal
llama-bin x86_64-darwin cpu
llama-bin x86_64-linux cpu vulkan rocm-7.2 openvino-2026.0 sycl_fp16-2025.3.3 sycl_fp32-2025.3.3
llama-bin aarch64-linux cpu vulkan
llama-bin s390x-linux cpu
llama-bin aarch64-android cpu
llama-bin x86_64-windows cpu vulkan cuda-12.4 cuda-13.3 hip_radeon-26.Q1 sycl-2025.3.3
llama-bin aarch64-windows cpu opencl_adreno
llama-xcframework universal-apple metal
cudart x86_64-windows cuda-12.4 cuda-13.3
llama-ui - -
"""


def test_llama_cpp_has_24_archives() -> None:
    rows = [line.split() for line in LLAMA.splitlines()]
    wanted = [(package, system, one) for package, system, *every in rows for one in every]
    found = [
        (package, axes.get("platform", "-"), "-".join(filter(None, (axes.get("family", "-"), axes.get("toolkit")))))
        for package, _, axes in cells("llama-cpp")
    ]
    assert len(found) == 24
    assert sorted(found) == sorted(wanted)


PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.14t", "3.15", "3.15t")
TORCH = {
    "x86_64-linux": ("cpu", "cuda 12.6", "cuda 13.0", "cuda 13.2", "cuda 13.4", "rocm 7.14", "rocm 10.0", "xpu"),
    "aarch64-linux": ("cpu", "cuda 12.6", "cuda 13.0", "cuda 13.2", "cuda 13.4"),
}


def accelerator(axes: Mapping[str, str]) -> str:
    return " ".join(filter(None, (axes["family"], axes.get("toolkit"))))


def test_pytorch_has_104_wheels_for_linux_from_34_builds() -> None:
    wanted = {(system, one, python) for system, every in TORCH.items() for one in every for python in PYTHONS}
    found = {(axes["platform"], accelerator(axes), axes["python"]) for _, _, axes in cells("pytorch-linux")}
    assert found == wanted
    assert len(wanted) == 104
    made = builds(planned("pytorch-linux").judged.cells)
    assert sum(len(build.variants) for build in made) == 104
    apart = {
        (system, one, "" if one.startswith(("cpu", "cuda")) else python)
        for system, every in TORCH.items()
        for one in every
        for python in PYTHONS
    }
    assert len(made) == len(apart) == 34
    for build in made:
        family, count = build.variants[0][0].family, len(build.variants)
        assert count == (8 if family in {"cpu", "cuda"} else 1), build.name
        assert len({(cell.axes["platform"], accelerator(cell.axes)) for cell, _ in build.variants}) == 1


CUDF = """\
conda any  libcudf libcudf_kafka libcudf-streaming libcudf-example libcudf-tests libcudf-streaming-tests
conda abi3 pylibcudf cudf cudf_kafka cudf-streaming
conda pure dask-cudf cudf-polars custreamz
wheel any  libcudf
wheel any  libcudf-streaming
wheel abi3 pylibcudf
wheel abi3 cudf
wheel abi3 cudf-streaming
wheel pure dask-cudf
wheel pure cudf-polars
jar   any  cudf-java
"""
"""The builds: the format, the Pythons that the packages serve (pure: the platforms as well), and the packages."""


def test_cudf_has_74_packages_from_38_builds() -> None:
    wanted = set()
    for line in CUDF.splitlines():
        kind, python, *packages = line.split()
        for cuda, platform in product(("12", "13"), ("",) if python == "pure" else PLATFORMS):
            wanted.add((kind, "abi3" if python == "abi3" else "", cuda, platform, frozenset(packages)))
    made = builds(planned("cudf").judged.cells)
    found = {
        (
            (axes := build.variants[0][0].axes)["format"],
            axes.get("python", ""),
            axes["toolkit"],
            axes.get("platform", ""),
            frozenset(variant.package for _, variant in build.variants),
        )
        for build in made
    }
    assert found == wanted
    assert (len(made), sum(len(build.variants) for build in made)) == (38, 74)
    assert sum(package == "libcudf" for package, _, _ in cells("cudf")) == 8


def test_the_packages_of_cudf_are_built_after_the_library_that_serves_them() -> None:
    plan_ = planned("cudf")
    needs = Needs(plan_.spec, plan_.judged.cells)
    for package, cell, axes in cells("cudf"):
        for other, needed in needs.of(cell, package):
            own = {axis: value for axis, value in other.axes.items() if axis in axes}
            assert own.items() <= axes.items(), (package, needed.name)
            if needed.package == "libcudf":
                assert "python" not in other.axes
    (shard,) = (one for one in plan_.shards if one.name == "build-main-cuda12")
    jobs = workflow(plan_.spec, shard).jobs
    library = "libcudf-conda-cu12-x86_64-linux"
    job = jobs["pylibcudf-conda-abi3-cu12-x86_64-linux"]
    assert library in job.needs
    assert f"needs.{library}.outputs.manifests != ''" in job.if_


# Tests of RAPIDS each night: the Python, the toolkit, the system, the GPU, its driver, the dependencies.
WHEELS = {
    "x86_64-linux": """\
3.11 12.2.2 ubuntu22.04 v100       earliest latest
3.11 12.9.2 rockylinux8 l4         latest   oldest
3.11 12.9.2 ubuntu22.04 l4         earliest latest
3.12 12.9.2 ubuntu24.04 h100       latest   latest
3.12 13.0.3 ubuntu24.04 h100       latest   latest
3.13 13.3.0 ubuntu26.04 h100       latest   latest
3.14 13.3.0 ubuntu26.04 rtxpro6000 latest   latest
""",
    "aarch64-linux": """\
3.11 12.9.2 rockylinux8 a100       latest   oldest
3.12 12.2.2 ubuntu22.04 l4         latest   latest
3.12 13.0.3 ubuntu24.04 l4         latest   latest
3.14 13.3.0 ubuntu26.04 l4         latest   latest
""",
}
CONDA_CPP = {
    "x86_64-linux": """\
3.11 12.2.2 rockylinux8 l4         earliest oldest
3.11 12.9.2 ubuntu22.04 l4         latest   latest
3.12 13.0.3 rockylinux8 rtxpro6000 latest   latest
3.13 12.2.2 rockylinux8 v100       earliest latest
3.13 13.3.0 ubuntu26.04 h100       latest   latest
3.14 12.9.2 ubuntu24.04 h100       latest   latest
3.14 13.3.0 ubuntu26.04 rtxpro6000 latest   latest
""",
    "aarch64-linux": """\
3.11 12.2.2 ubuntu22.04 l4         latest   oldest
3.12 13.0.3 rockylinux8 a100       latest   latest
3.13 13.3.0 rockylinux8 a100       latest   latest
3.14 12.9.2 ubuntu22.04 l4         latest   latest
""",
}
CONDA_PYTHON = {
    "x86_64-linux": """\
3.11 12.2.2 rockylinux8 l4         earliest oldest
3.11 12.9.2 ubuntu22.04 l4         latest   latest
3.12 12.2.2 ubuntu22.04 a100       latest   latest
3.12 13.0.3 rockylinux8 rtxpro6000 latest   latest
3.13 12.2.2 rockylinux8 v100       earliest latest
3.13 12.9.2 ubuntu24.04 h100       latest   latest
3.13 13.3.0 ubuntu26.04 h100       latest   latest
3.14 13.3.0 ubuntu26.04 rtxpro6000 latest   latest
""",
    "aarch64-linux": """\
3.11 12.2.2 ubuntu22.04 l4         latest   oldest
3.12 12.9.2 ubuntu22.04 l4         latest   latest
3.12 13.0.3 rockylinux8 a100       latest   latest
3.14 13.3.0 rockylinux8 a100       latest   latest
""",
}
"""Without GB300, which cuDF leaves out. The conda packages are outputs of builds that make several."""

TARGETS = {"v100": "sm70", "a100": "sm80", "l4": "sm89", "h100": "sm90", "rtxpro6000": "sm120"}


def with_tests(package: str, form: str, tests: dict[str, str]) -> Plan:
    """The plan of cuDF with the rows `tests` as a suite of `package`, for the variants of the format `form`."""
    spec: dict[str, Any] = yaml.safe_load((GOOD / "cudf/ci-matrix.yaml").read_text("utf-8"))
    axes = ("python", "accelerator", "system-image", "driver", "dependencies")
    rows = [
        dict(zip(axes, (python, f"cuda {kit} {TARGETS[gpu]}", *rest), strict=True)) | {"platform": platform}
        for platform, listed in tests.items()
        for python, kit, image, gpu, *others in map(str.split, listed.splitlines())
        for rest in [(image, *others)]
    ]
    spec["axes"]["toolkit"] = {"serves": {"12": ["12.2.2", "12.9.2"], "13": ["13.0.3", "13.3.0"]}}
    suite = {"command": "ci/test.sh", "minutes": 60, "on": "gpu"}
    matrix = {"values": {"format": form}, "rows": rows}
    spec["packages"][package] = spec["packages"][package] | {"suites": {"nightly": suite | {"matrix": matrix}}}
    for platform, word in (("x86_64-linux", "x64"), ("aarch64-linux", "arm64")):
        for gpu, target in TARGETS.items():
            if f" {gpu} " in tests[platform]:
                labels = ["self-hosted", "linux", word, gpu]
                spec["runners"][f"{gpu}-{word}"] = {"runs-on": labels, "gpu": target, "stages": ["gpu-test"]}
    return plan(spec_of(spec))


def passed(decided: Plan, shard: Shard, cell: Cell, package: str, bench: Bench) -> list[dict[str, str]]:
    """The legs that the job of `cell` in the workflow of `shard` passes for `package`."""
    given = workflow(decided.spec, shard).jobs[shard.job_id(cell)].with_
    legs_ = json.loads(given[bench.job]) if cell.joined else json.loads(given[SUITES])[bench.job_of(package)]
    return list(legs_)


@pytest.mark.parametrize(
    ("package", "form", "python", "tests", "count"),
    [
        ("cudf", "wheel", "abi3", WHEELS, 11),
        ("cudf", "conda", "abi3", CONDA_PYTHON, 12),
        ("libcudf-tests", "conda", None, CONDA_CPP, 11),
    ],
)
def test_the_rows_that_test_cudf_come_out_those_on_toolkits_without_a_build_included(
    package: str, form: str, python: str | None, tests: dict[str, str], count: int
) -> None:
    decided, found = with_tests(package, form, tests), []
    for shard in decided.shards:
        for cell, route in shard.cells:
            for variant in (one for one in cell.variants if one.package == package):
                for suite in suites_of(decided.spec, cell, variant):
                    values, axes, bench = suite.values, cell.axes, bench_of(suite)
                    assert (axes.get("python"), axes["format"], bool(cell.joined)) == (python, form, form == "conda")
                    assert axes["toolkit"] == values["accelerator"].split()[1].split(".")[0]
                    gpu = route.suites[bench].name.split("-")[0]
                    row = (values["python"], values["accelerator"].split()[1], values["system-image"], gpu)
                    found.append((axes["platform"], *row, values["driver"], values["dependencies"]))
                    (shown,) = legs([suite], bench)
                    named = {"name": variant.name} if cell.joined else {}
                    assert named | shown in passed(decided, shard, cell, package, bench)
    wanted = [(platform, *line.split()) for platform, text in tests.items() for line in text.splitlines()]
    assert sorted(found) == sorted(wanted)
    assert len(found) == count
    built = {value for row in decided.spec.settings["toolkit-version"] for value in [row.value]}
    assert {row[2] for row in found} - built == {"12.2.2", "13.0.3"}
    suites = [row for row in document(decided)["tests"] if row["name"].startswith("suite ")]
    assert len(suites) == count
