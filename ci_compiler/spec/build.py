"""A document becomes a `Spec`: validated, read by the declarations in `model`, completed, its references checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ci_compiler import __version__
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError
from ci_compiler.hardware import Hardware, tables
from ci_compiler.spec.axes import Accelerator
from ci_compiler.spec.declare import keys_of
from ci_compiler.spec.load import Document, Path_, parse_document, read_document
from ci_compiler.spec.model import Branch, Package, Pool, Spec
from ci_compiler.spec.open_hardware import hosted, with_open_rows
from ci_compiler.spec.packages import Pin
from ci_compiler.spec.pools import RunsOn
from ci_compiler.spec.presets import overrides_of, preset_of, presets
from ci_compiler.spec.read import read
from ci_compiler.spec.references import reference_findings
from ci_compiler.spec.shorthand.hardware import HardwareRows, merged
from ci_compiler.spec.shorthand.lists import spelled_out
from ci_compiler.spec.shorthand.rows import expanded
from ci_compiler.spec.validate import schema_findings
from ci_compiler.stages import PUBLISH, Stage, default_stages, stages

BUNDLED = Path(__file__).with_name("starters") / "torch.yaml"
"""The spec of the torch stack, used where a repository has none of its own."""

BUNDLED_SHOWN = "torch.yaml (bundled)"

STARTERS = Path(__file__).with_name("starters")
"""The folders of the files that `ci-compile init --template NAME` writes, by the name of the template."""


def starters() -> list[str]:
    """The names of the templates of `ci-compile init`; the default comes first."""
    return sorted((path.name for path in STARTERS.iterdir() if path.is_dir()), key=lambda name: (name != "torch", name))


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
    """The spec in `document`. Raises InputError with all schema errors, or else with all errors in references."""
    document = spelled_out(_over_bundled(document))
    if findings := schema_findings(document):
        raise InputError(findings)
    hardware = _hardware(document)
    value, document = expanded(document, hardware)
    spec: Spec = read(Spec, value, document=document, hardware=hardware)
    spec = replace(
        spec,
        branches={name: _complete_branch(one, value["branches"][name]) for name, one in spec.branches.items()},
        packages={name: _complete_package(package) for name, package in spec.packages.items()},
    )
    spec = replace(spec, hardware=with_open_rows(spec))
    spec = replace(spec, pools=tuple(_complete_pool(pool, spec, _left_out(spec)) for pool in spec.pools))
    if findings := reference_findings(spec):
        raise InputError(findings)
    return spec


def expanded_value(spec: Spec) -> dict[str, Any]:
    """The value of a spec's document with the rows that the short form of its matrices stands for."""
    value: dict[str, Any] = expanded(spec.document, spec.hardware)[0]
    return value


def _over_bundled(document: Document) -> Document:
    """`document` over the bundled spec that it names, if it names one. Raises InputError for an unknown name."""
    own = document.value
    if not isinstance(own, dict) or "bundled" not in own:
        return document
    if (name := own["bundled"]) != BUNDLED.stem:
        also = f"; `ci-compile init --template {name}` writes a first spec" if name in starters() else ""
        message = f"{name!r} is not a bundled spec; the only one is {BUNDLED.stem}{also}"
        raise InputError([Finding(place=document.place(("bundled",)), code=Code.WRONG_VALUE, message=message)])
    base = read_document(BUNDLED, shown=BUNDLED_SHOWN)

    def over(of_base: Mapping[Path_, Any], of_own: Mapping[Path_, Any]) -> dict[Path_, Any]:
        return {path: one for path, one in of_base.items() if not path or path[0] not in own} | dict(of_own)

    return Document(
        file=BUNDLED_SHOWN if len(own) == 1 else document.file,
        value={**base.value, **own},
        values=over(base.values, document.values),
        keys=over(base.keys, document.keys),
        typed=over(base.typed, document.typed),
        guessed=document.guessed,
    )


def _hardware(document: Document) -> Hardware:
    """The tables that the section `hardware` makes of the bundled ones. Raises InputError."""
    rows = read(HardwareRows, document.value.get("hardware"))
    hardware, problems = merged(rows, tables()) if rows != HardwareRows() else (tables(), [])
    findings = [
        Finding(place=document.place(one.path, key=one.key), code=one.code, message=one.message) for one in problems
    ]
    if findings:
        raise InputError(sorted(findings, key=lambda finding: finding.place))
    return hardware


def _complete_branch(branch: Branch, row: Mapping[str, Any]) -> Branch:
    """`branch` with the pin of each toolkit: its own values, refined by those of the toolkit's entry."""
    rows: Mapping[str, Any] = branch.toolkits
    own = {key.name: row[key.name] for key in keys_of(Pin) if key.name in row}
    return replace(branch, toolkits={name: read(Pin, _refined(own, entry or {})) for name, entry in rows.items()})


def _refined(own: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a toolkit's entry over those of its branch; a hash belongs to the commit beside it."""
    kept = {key: value for key, value in own.items() if key != "nixpkgs-hash" or "nixpkgs" not in entry}
    tables = {key: {**kept[key], **value} for key, value in entry.items() if isinstance(value, dict) and key in kept}
    return {**kept, **entry, **tables}


def _complete_package(package: Package) -> Package:
    attribute = package.attribute or package.name
    preset = preset_of(package.preset, attribute)
    whole = replace(package, attribute=attribute, preset=preset, title=package.title or package.name)
    return replace(whole, overrides=overrides_of(whole) if preset in presets() else {})


def _left_out(spec: Spec) -> frozenset[Stage]:
    """The stages that a pool runs only if it lists them: publishing, if a pool does nothing else; those left off."""
    publishing = {PUBLISH} if any(pool.only_publishes for pool in spec.pools) else set()
    return frozenset(publishing | {stage for stage in stages() if stage not in spec.stages})


def _complete_pool(pool: Pool, spec: Spec, left_out: frozenset[Stage]) -> Pool:
    if pool.hosted:
        facts = {name: value for name, value in hosted().get(pool.hosted, {}).items() if name != "minute"}
        pool = replace(pool, runs_on=RunsOn(labels=(pool.hosted,)), **facts)
    if pool.accelerator:
        pool = replace(pool, gpu=Accelerator.parse(pool.accelerator).label)
    usual = tuple(stage for stage in default_stages(gpu=bool(pool.gpu)) if stage not in left_out)
    return replace(
        pool,
        system=pool.system or _system_of(pool, spec),
        stages=pool.stages or usual,
        image=pool.image or _image("gpu-tester" if pool.gpu else "builder", spec.owner),
    )


def _system_of(pool: Pool, spec: Spec) -> str:
    """The system that the labels X64, ARM64, macOS and Windows name (GitHub ignores case); '' if they name none."""
    labels = {label.lower() for label in pool.runs_on.labels}
    systems = [system for system in spec.hardware.systems.values() if system.label.lower() in labels]
    named = labels & {"macos", "windows"} or {"linux"}
    return next((system.name for system in systems if system.os.lower() in named), "")


def _image(kind: str, owner: str) -> str:
    """The image of `runner-images/` called `kind`, as `owner` publishes it (registries allow lower case only)."""
    return _images()[kind].format(owner=owner.lower(), version=__version__)


@cache
def _images() -> dict[str, str]:
    images: dict[str, str] = json.loads(Path(__file__).with_name("images.json").read_bytes())["images"]
    return images
