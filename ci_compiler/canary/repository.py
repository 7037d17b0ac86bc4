"""The files that `ci-compile canary` writes: workflows, and a folder with the spec and sources of a package."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ci_compiler.canary import workflows
from ci_compiler.canary.assumptions import FEATURES
from ci_compiler.canary.parts import ENVIRONMENT, FOLDER, GUIDE, MARK, SPEC_FILE
from ci_compiler.plan.sharding import FOLDER as WORKFLOWS
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.model import Cache, Pool, RunsOn, Spec
from ci_compiler.spec.shorthand.lists import TOOLKITS
from ci_compiler.workflows import setup_action
from ci_compiler.workflows.common import runs_on
from ci_compiler.workflows.pins import pinned
from ci_compiler.workflows.writer import Node, dump

HEADER = (f"{MARK}: {GUIDE}",)
SOURCES = Path(__file__).with_name("files")
"""The files that are the same everywhere, by their path from `FOLDER`."""

WRITTEN = Path(__file__).with_name("written")
"""The workflows that are the same everywhere but for the label of hosted machines and the pins of actions."""

_ACTION = re.compile(r"(?<=uses: )actions/[a-z-]+$", re.MULTILINE)

PACKAGE = "canary"
PYTHON = setup_action.PYTHON
ISAS = {"x86_64-linux": "avx2", "aarch64-linux": "armv8_2"}
"""The instruction set of the canary's package, by system."""

_LABELS = {"x86_64-linux": "x64", "aarch64-linux": "arm64"}
"""GitHub's label for each system, by which the spec of the canary tells its machines apart."""

HOSTED = "hosted"
"""The name of the machines that GitHub hosts among the choices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryPlace:
    """Where the canary can run: its name among the choices, how a job addresses it, its system, and whose it is."""

    name: str
    where: RunsOn
    system: str
    hosted: bool = False

    def node(self) -> dict[str, object]:
        """The values that the workflow reads: where jobs run, the same with a label that no machine has, a cell."""
        labels = [*self.where.labels, "ci-compile-canary-none"]
        without = {"group": self.where.group, "labels": labels} if self.where.group else labels
        machine = {"pool": self.name, "runs-on": runs_on(self.where)}
        return {
            "on": runs_on(self.where),
            "machines": {"build": machine, "cpu-test": machine},
            "unserved": "" if self.where.scale_set else without,
            "addressed": "scale-set" if self.where.scale_set else "group" if self.where.group else "labels",
            "kind": "hosted" if self.hosted else "self-hosted",
            "cell": f"python{PYTHON.replace('.', '')}-cpu-{ISAS[self.system]}",
        }


def places(own: Spec | None) -> tuple[CanaryPlace, ...]:
    """The machines that GitHub hosts, and each pool of the repository's spec whose system has a cell."""
    label = own.hosted if own else "ubuntu-24.04"
    first = CanaryPlace(name=HOSTED, where=RunsOn(labels=(label,)), system="x86_64-linux", hosted=True)
    pools: Sequence[Pool] = own.pools if own else ()
    return first, *(
        CanaryPlace(name=pool.name, where=pool.runs_on, system=pool.system, hosted=bool(pool.hosted))
        for pool in pools
        if pool.system in ISAS
    )


def files(own: Spec | None, toolkit: str = "") -> dict[str, str]:
    """The text of each file by its path from the repository's root; `own` is the repository's spec, if it has one.

    `toolkit` is what hosted jobs install; '': a release of this version.
    """
    chosen = places(own)
    text = dump(_document(chosen, toolkit), header=HEADER)
    spec = parse_spec(text.encode(), shown=SPEC_FILE)
    cache: Cache | None = own.cache if own else None
    rows = {place.name: place.node() for place in chosen}
    compiled: dict[str, Mapping[str, Node]] = {
        f"{WORKFLOWS}/{workflows.CANARY}": workflows.canary(spec, rows, cache.url if cache else "").node(),
        f"{WORKFLOWS}/{workflows.CELL}": workflows.cell(spec).node(),
        f"{WORKFLOWS}/{workflows.OUTER}": workflows.outer().node(),
        f"{WORKFLOWS}/{workflows.INNER}": workflows.inner(spec).node(),
        f"{FOLDER}/setup/action.yml": setup_action.action(spec),
    }
    return {
        **{f"{FOLDER}/{path}": source for path, source in _sources().items()},
        SPEC_FILE: text,
        **{path: dump(one, header=HEADER) for path, one in compiled.items()},
        **{f"{WORKFLOWS}/{path.name}": _filled(path, spec) for path in sorted(WRITTEN.glob("*.yml"))},
    }


def _filled(path: Path, spec: Spec) -> str:
    """The workflow at `path` with the label of hosted machines, and with the pins of its actions."""
    text = path.read_text("utf-8").replace(" HOSTED\n", f" {json.dumps(spec.hosted)}\n")
    return f"# {HEADER[0]}\n" + _ACTION.sub(lambda match: "{0} # {0.remark}".format(pinned(match[0])), text)


def used_features(spec: Spec) -> frozenset[str]:
    """The features (FEATURES) that a repository with `spec` relies on."""
    systems = {spec.hardware.systems[pool.system].os for pool in spec.pools}
    uses = {
        "publishing": any(branch.publish for branch in spec.branches.values()),
        "own-machines": any(not pool.hosted for pool in spec.pools),
        "nix": spec.backend.has_recipes,
        "flox": spec.backend.name == "flox",
        "macos": "macOS" in systems,
        "windows": "Windows" in systems,
    }
    return frozenset(FEATURES) - {name for name, one in uses.items() if not one}


def _document(chosen: Sequence[CanaryPlace], toolkit: str) -> dict[str, Node]:
    """The spec of the canary's package; all its stages run on the one machine that is chosen."""
    isas: dict[str, Node] = {system: [ISAS[system]] for system in dict.fromkeys(place.system for place in chosen)}
    machines: dict[str, Node] = {
        _LABELS[system]: {"runs-on": ["self-hosted", _LABELS[system]], "system": system, "cpu": [ISAS[system]]}
        for system in isas
    }
    command: dict[str, Node] = {
        "build": f"{FOLDER}/build.sh",
        "files": ["canary-dist/*.whl"],
        "sources": [FOLDER],
        "install": "pip install ci-compile-canary==@version@",
        "publish": "true",
    }
    package: dict[str, Node] = {"disk": 1, "memory": 1, "jobs": 1, "command": command}
    return {
        "version": 1,
        "owner": "canary",
        "backend": "command",
        **({"toolkit": toolkit} if toolkit else {}),
        "branches": {"main": {TOOLKITS: "12.8", "publish": False, "versions": {PACKAGE: "1.0.0"}}},
        "packages": {PACKAGE: package},
        "matrix": {"python": [PYTHON], "isas": isas, "gpus": {"cpu": {}}},
        "runners": machines,
        # Nothing is published, so the machines may share what they like.
        "publish": {"environment": ENVIRONMENT, "on-shared-machines": True},
    }


@cache
def _sources() -> dict[str, str]:
    paths = sorted(path for path in SOURCES.rglob("*") if path.is_file())
    return {path.relative_to(SOURCES).as_posix(): path.read_text("utf-8") for path in paths}
