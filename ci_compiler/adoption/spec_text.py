"""The text of an adopted spec, laid out as a person would write it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ci_compiler.adoption.guesses import Declared
from ci_compiler.adoption.spec_yaml import entry, flow
from ci_compiler.hardware import CPU, Hardware
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.schema import ADDRESS
from ci_compiler.stages import BUILD, PUBLISH

OWNER = "my-org"
GUESSED = "guessed"
UNTESTED = "no pool states its CPU (`cpu`)"
"""Why the variants of an adopted spec are not tested, until somebody states what the machines are."""


class Section(NamedTuple):
    """A branch or a package: its keys in the spec, and remarks on it and on some of them."""

    name: str
    row: Mapping[str, object]
    remark: str = ""
    remarks: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecText:
    """What an adopted spec states. `systems` are those that need a build pool; an empty `matrix` is none.

    `spelled` are the keys about the names of open matrices.
    """

    branches: Sequence[Section]
    packages: Sequence[Section]
    matrix: Mapping[str, Any]
    systems: Sequence[str]
    declared: Declared
    hardware: Hardware
    spelled: Mapping[str, Any]

    def __str__(self) -> str:
        """The YAML."""
        lines = [
            f"# yaml-language-server: $schema={ADDRESS}",
            "# Made from existing recipes by `ci-compile adopt`. It is yours now: edit it; what it states is built.",
            "version: 1",
            f"owner: {OWNER}  # guessed: the FloxHub organisation that the variants are published to",
            "",
            "branches:",
            *(line for branch in self.branches for line in _branch(branch)),
            "",
            *self._hardware(),
            *self._spelled(),
            "packages:",
            *(line for section in self.packages for line in entry(section.name, section.row, "  ", section.remark)),
            "",
            *self._matrix(),
            "runners:  # guessed: recipes do not state your machines; `ci-runner labels` shows the labels of one.",
            "  # A variant is tested where a pool has its ISA (`cpu`) and its GPU (`gpu`).",
            f"  # Variants with an ISA are untested: {UNTESTED}.",
            *(line for system in self.systems for line in _pool(system, self.hardware)),
        ]
        return "\n".join(lines) + "\n"

    def _hardware(self) -> Iterator[str]:
        if self.declared:
            yield "hardware:  # guessed from the recipes' names and texts: the tables do not know it"
            for table, rows in self.declared.items():
                yield from entry(table, rows, "  ", block=True)
            yield ""

    def _spelled(self) -> Iterator[str]:
        for key, value in self.spelled.items():
            yield from entry(key, value)
        if self.spelled:
            yield ""

    def _matrix(self) -> Iterator[str]:
        if not self.matrix:
            return
        yield "matrix:  # a variant is a package x branch x Python x toolkit x GPU x ISA"
        if self.matrix["python"]:
            yield from entry("python", self.matrix["python"], "  ")
        yield from entry("isas", self.matrix["isas"], "  ", block=True)
        yield "  gpus:"
        for gpu, row in self.matrix["gpus"].items():
            yield from entry(gpu, row, "    ", "" if gpu == CPU else self.hardware.gpu(gpu).summary)
        if self.matrix["exclude"]:
            yield from entry("exclude", self.matrix["exclude"], "  ", block=True)
        yield ""


def _branch(branch: Section) -> Iterator[str]:
    head = f"  {flow(branch.name)}:"
    if not branch.row:
        yield f"{head} {{}}"
        return
    yield head
    for key, value in branch.row.items():
        yield from entry(key, value, "    ", branch.remarks.get(key, ""))


def _pool(system: str, hardware: Hardware) -> Iterator[str]:
    """A build pool as large as the bundled stack's for the system, or else as its first, and a pool that publishes."""
    known = hardware.systems[system]
    pools = [pool for pool in bundled_spec().pools if BUILD in pool.stages]
    like = next((pool for pool in pools if pool.system == system), pools[0])
    linux, label = known.os == "Linux", known.label.lower()
    machine = ["self-hosted", "linux" if linux else known.os, label]
    name = label if linux else known.os.lower()
    row = {
        "runs-on": [*machine, "nix-builder"],
        "cpu": [],
        **{key: getattr(like, key) for key in ("cores", "memory", "disk")},
    }
    yield from entry(f"{name}-builder", row, "  ")
    yield from entry(f"{name}-publisher", {"runs-on": [*machine, "nix-publisher"], "stages": [PUBLISH.name]}, "  ")
