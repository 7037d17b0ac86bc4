"""A valid document becomes a `Spec`: every key read once, every default the schema's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci_compiler import __version__
from ci_compiler.errors import InputError
from ci_compiler.hardware import Hardware, tables
from ci_compiler.spec.load import Document, parse_document, read_document
from ci_compiler.spec.model import (
    Backend,
    Branch,
    Cache,
    Exclusion,
    GpuAxis,
    Matrix,
    Package,
    Pool,
    Publish,
    Repository,
    RunsOn,
    Schedule,
    Source,
    Spec,
    Stage,
    TestPolicy,
)
from ci_compiler.spec.schema import schema_findings, with_defaults

BUNDLED = Path(__file__).with_name("torch.yaml")
"""The spec of the torch stack, which stands in where a repository has none of its own."""

BUNDLED_SHOWN = "torch.yaml (bundled)"


def load_spec(path: Path, *, shown: str) -> Spec:
    """The spec in the file at `path`, called `shown` in findings and headers. Raises InputError."""
    return build_spec(read_document(path, shown=shown))


def parse_spec(data: bytes, *, shown: str) -> Spec:
    """The spec whose YAML is `data`. Raises InputError."""
    return build_spec(parse_document(data, shown=shown))


def bundled_spec() -> Spec:
    """The torch stack's spec."""
    return load_spec(BUNDLED, shown=BUNDLED_SHOWN)


def build_spec(document: Document) -> Spec:
    """The model of `document`. Raises InputError with everything that the schema finds wrong."""
    if findings := schema_findings(document):
        raise InputError(findings)
    data = with_defaults(document.value)
    hardware = tables()
    return Spec(
        document=document,
        hardware=hardware,
        owner=data["owner"],
        backend=Backend(data["backend"]),
        branches={name: _branch(name, row) for name, row in data["branches"].items()},
        packages={name: _package(name, row) for name, row in data["packages"].items()},
        matrix=_matrix(data["matrix"]),
        pools=tuple(_pool(name, row, hardware, data["owner"]) for name, row in data["runners"].items()),
        tests={Stage(name): TestPolicy(value) for name, value in data["tests"].items()},
        timeouts={Stage(name): value for name, value in data["timeouts"].items()},
        stage_minutes={Stage(name): value for name, value in data["stage-minutes"].items()},
        publish=_publish(data["publish"]),
        cache=Cache(url=data["cache"]["url"], public_key=data["cache"]["public-key"]) if "cache" in data else None,
        attest=data["attest"],
        pull_request_cells=data["pull-request"]["cells"],
        schedule=_schedule(data["schedule"]) if "schedule" in data else None,
        hosted=data["hosted"],
        toolkit=data.get("toolkit", f"ci-compiler=={__version__}"),
    )


def _branch(name: str, row: Mapping[str, Any]) -> Branch:
    return Branch(
        name=name,
        cuda=row["cuda"],
        nixpkgs=row["nixpkgs"],
        nixpkgs_hash=row.get("nixpkgs-hash", ""),
        allow_broken=row["allow-broken"],
        versions=row["versions"],
        sources={package: Source(**source) for package, source in row["sources"].items()},
        pnames=row["pnames"],
        work_arounds=tuple(row["work-arounds"]),
    )


def _package(name: str, row: Mapping[str, Any]) -> Package:
    return Package(
        name=name,
        attribute=row.get("attribute", name),
        needs=tuple(row["needs"]),
        branches=tuple(row.get("branches", ())),
        minutes=row["minutes"],
        disk=row["disk"],
        memory=row["memory"],
        jobs=row["jobs"],
        title=row.get("title", name),
        repository=Repository(**row["repository"]) if "repository" in row else None,
    )


def _matrix(row: Mapping[str, Any]) -> Matrix:
    return Matrix(
        pythons=tuple(row["python"]),
        isas={system: tuple(names) for system, names in row["isas"].items()},
        gpus=tuple(_gpu_axis(name, entry or {}) for name, entry in row["gpus"].items()),
        exclude=tuple(
            Exclusion(
                index=index,
                pattern=entry["variants"],
                branches=tuple(entry.get("branches", ())),
                because=entry["because"],
            )
            for index, entry in enumerate(row["exclude"])
        ),
    )


def _gpu_axis(name: str, row: Mapping[str, Any]) -> GpuAxis:
    return GpuAxis(
        name=name,
        branches=tuple(row.get("branches", ())),
        isas=tuple(row.get("isas", ())),
        also={branch: tuple(names) for branch, names in row.get("also", {}).items()},
    )


def _pool(name: str, row: Mapping[str, Any], hardware: Hardware, owner: str) -> Pool:
    runs_on = _runs_on(row["runs-on"])
    gpu = row.get("gpu", "")
    usual = (Stage.CPU_TEST, Stage.GPU_TEST) if gpu else (Stage.BUILD, Stage.CPU_TEST, Stage.PUBLISH)
    return Pool(
        name=name,
        runs_on=runs_on,
        system=row.get("system") or _system_of(runs_on.labels, hardware),
        stages=tuple(map(Stage, row["stages"])) if "stages" in row else usual,
        cpu=tuple(row["cpu"]),
        gpu=gpu,
        count=row["count"],
        cores=row["cores"],
        memory=row["memory"],
        disk=row["disk"],
        image=row.get("image") or _image("gpu-tester" if gpu else "builder", owner),
    )


def _image(kind: str, owner: str) -> str:
    """The image of `runner-images/` called `kind`, as `owner` publishes it (registries know small letters only)."""
    images: dict[str, str] = json.loads(Path(__file__).with_name("images.json").read_bytes())["images"]
    return images[kind].format(owner=owner.lower(), version=__version__)


def _runs_on(value: str | list[str] | Mapping[str, Any]) -> RunsOn:
    if isinstance(value, str):
        return RunsOn(scale_set=value)
    if isinstance(value, list):
        return RunsOn(labels=tuple(value))
    return RunsOn(labels=tuple(value.get("labels", ())), group=value["group"])


def _system_of(labels: tuple[str, ...], hardware: Hardware) -> str:
    """The Nix system that the labels X64 or ARM64 tell (case does not matter to GitHub); '' where none does."""
    lowered = {label.lower() for label in labels}
    return next((system.name for system in hardware.systems.values() if system.label.lower() in lowered), "")


def _publish(row: Mapping[str, Any]) -> Publish:
    return Publish(after=tuple(map(Stage, row["after"])), environment=row["environment"], on_push=row["on-push"])


def _schedule(row: Mapping[str, Any]) -> Schedule:
    return Schedule(days=tuple(row["days"]), build=row["build"])
