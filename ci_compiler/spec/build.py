"""A document becomes a `Spec`: validated, read by the declarations in `model`, completed, its references checked."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

from ci_compiler import __version__
from ci_compiler.errors import InputError
from ci_compiler.hardware import tables
from ci_compiler.spec.load import Document, parse_document, read_document
from ci_compiler.spec.model import Package, Pool, Spec
from ci_compiler.spec.presets import BUILDS, override_of, preset_of, presets
from ci_compiler.spec.read import read
from ci_compiler.spec.references import reference_findings
from ci_compiler.spec.validate import schema_findings
from ci_compiler.stages import default_stages

BUNDLED = Path(__file__).with_name("torch.yaml")
"""The spec of the torch stack, used where a repository has none of its own."""

BUNDLED_SHOWN = "torch.yaml (bundled)"

FIRST = Path(__file__).with_name("first.yaml")
"""The spec that `ci-compile init` writes."""


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
    if findings := schema_findings(document):
        raise InputError(findings)
    spec: Spec = read(Spec, document.value, document=document, hardware=tables())
    spec = replace(
        spec,
        packages={name: _complete_package(package) for name, package in spec.packages.items()},
        pools=tuple(_complete_pool(pool, spec) for pool in spec.pools),
    )
    if findings := reference_findings(spec):
        raise InputError(findings)
    return spec


def _complete_package(package: Package) -> Package:
    attribute = package.attribute or package.name
    preset = preset_of(package.preset, attribute)
    whole = replace(package, attribute=attribute, preset=preset, title=package.title or package.name)
    return replace(whole, overrides={kind: override_of(whole, kind) for kind in BUILDS if preset in presets()})


def _complete_pool(pool: Pool, spec: Spec) -> Pool:
    return replace(
        pool,
        system=pool.system or _system_of(pool, spec),
        stages=pool.stages or default_stages(gpu=bool(pool.gpu)),
        image=pool.image or _image("gpu-tester" if pool.gpu else "builder", spec.owner),
    )


def _system_of(pool: Pool, spec: Spec) -> str:
    """The Nix system that the label X64 or ARM64 names (GitHub ignores case); '' if the pool has neither."""
    labels = {label.lower() for label in pool.runs_on.labels}
    return next((system.name for system in spec.hardware.systems.values() if system.label.lower() in labels), "")


def _image(kind: str, owner: str) -> str:
    """The image of `runner-images/` called `kind`, as `owner` publishes it (registries allow lower case only)."""
    return _images()[kind].format(owner=owner.lower(), version=__version__)


@cache
def _images() -> dict[str, str]:
    images: dict[str, str] = json.loads(Path(__file__).with_name("images.json").read_bytes())["images"]
    return images
