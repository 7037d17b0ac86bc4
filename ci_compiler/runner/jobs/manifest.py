"""`manifest.json`, which a build writes for the later stages.

It travels to other machines as an artifact, and its values become part of command lines there. The reader therefore
rejects every value that does not have the form that a build writes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from ci_compiler.backends import backend_of
from ci_compiler.backends.nar import closure_digest
from ci_compiler.backends.protocol import Backend
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place, nearest
from ci_compiler.outside import bytes_of, json_of, reading
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.runner.jobs.files import digest_of
from ci_compiler.stages import stage_of
from ci_compiler.variant import ATTRIBUTE

_COMMIT = re.compile(r"[0-9a-f]{40}")
_PIN = re.compile(rf"({_COMMIT.pattern})?")

Reader = Callable[[Any], Any]


class Builder(NamedTuple):
    """The machine that built: what matters for the build, without anything that identifies the machine."""

    system: str
    cpu: str
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A build: its source, its result, when and where.

    `commit` has the recipe, and `nixpkgs` is the pinned revision ('' for none).

    `store_path` is the output to install, `outputs` are all outputs. `closure` has the hash of each path's content, and
    `closure_size` is in bytes. `started` is UTC as ISO 8601, and `seconds` is the duration of the build. `built` is
    false if the store already had the result; `seconds` is then not the duration of a build. `untested` has the tests
    that no pool runs, with the reasons. `memory` is the most memory in use during the build, in bytes (0: unknown).
    `staged` is the store path that other machines get the build from; '' if the cache has all of it.
    `seed` has how many host objects were `found` in the compiler seed, `of` how many; it is empty without a seed.
    `python_modules` are the paths that nixpkgs' `withPackages` adds to an interpreter with the package (none: unknown).
    `needs` has the content of each needed variant whose files were handed over, by name.
    `architectures` are the targets of the code for GPUs that was read in the files, `compilers` those that the code
    states, and `torch` the version that the build was made with; empty where nothing was read.
    """

    name: str
    package: str
    version: str
    branch: str
    commit: str
    nixpkgs: str
    backend: Backend
    derivation: str
    store_path: str
    outputs: tuple[str, ...]
    closure_size: int
    closure: Mapping[str, str]
    started: str
    seconds: float
    built: bool
    machine: Builder
    untested: Mapping[str, str]
    memory: int = 0
    staged: str = ""
    python_modules: tuple[str, ...] = ()
    seed: Mapping[str, int] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    architectures: tuple[str, ...] = ()
    compilers: tuple[str, ...] = ()
    torch: str = ""

    @property
    def content(self) -> str:
        """A hash of the content of the build and of all that it needs: what a test of it was a test of."""
        return closure_digest({**self.closure, **self.needs})

    def as_json(self) -> dict[str, Any]:
        """What the file says."""
        plain = {"backend": self.backend.name, "machine": self.machine._asdict(), "untested": dict(self.untested)}
        found = {field.name: getattr(self, field.name) for field in fields(self)} | plain | {"seed": dict(self.seed)}
        del found["needs"]
        return found | ({"needs": dict(self.needs)} if self.needs else {})


def read_manifest(path: Path, digest: str | None = None) -> Manifest:
    """The manifest in the file at `path`. Raises InputError with all problems of the file.

    `digest` is the one that the build reported apart from the file; None does not compare.
    """
    with reading(path, Code.BROKEN_MANIFEST):
        content = bytes_of(path)
        data: Any = json_of(content)
    if digest not in {None, digest_of(content)}:
        other = f"not {digest!r}" if digest else "and the build reported none"
        raise _broken(path, f"is not the file that the build wrote: its digest is {digest_of(content)}, {other}")
    if not isinstance(data, dict):
        raise _broken(path, "is not the manifest of a build: not a mapping")
    names = [field.name for field in fields(Manifest)]
    problems = [f"has no {name!r}" for name in names if name not in data and name not in _OPTIONAL]
    problems += [f"has an unknown key {name!r}{nearest(name, names)}" for name in data if name not in names]
    values: dict[str, Any] = {}
    readers = _READERS | _output_readers(data.get("backend"))
    for name in filter(data.__contains__, names):
        try:
            values[name] = readers.get(name, str)(data[name])
        except (ValueError, TypeError, KeyError, AttributeError):
            problems.append(f"the value of {name!r} is not what builds write")
    if problems := problems or list(_contradictions(values)):
        raise _broken(path, *problems)
    return Manifest(**values)


def of_plan(built: BuiltVariant) -> dict[str, Any]:
    """What the plan says of the build of `built`, by the fields of its manifest."""
    spec, cell = built.spec, built.cell
    return {
        "name": built.variant.name,
        "package": built.variant.package,
        "version": built.version,
        "branch": cell.branch,
        "nixpkgs": spec.branches[cell.branch].pin(cell.toolkit).nixpkgs,
        "backend": spec.backend,
        "untested": {stage.name: reason for stage, reason in built.route.skipped.items() if stage.is_test},
    }


def expect(manifest: Manifest, path: Path, **wanted: object) -> None:
    """Raises InputError where `manifest`, read from `path`, states something else than `wanted`, by its fields.

    Of mappings whose values the plan does not know, `wanted` has the keys.
    """
    problems = [
        f"states the {key} {_words(found)}, not {_words(value)}"
        for key, value in wanted.items()
        if (found := getattr(manifest, key)) != value and not (isinstance(value, set) and value == {*found})
    ]
    if problems:
        raise _broken(path, *problems)


def _words(value: object) -> str:
    rows = [f"{key} ({text})" for key, text in value.items()] if isinstance(value, Mapping) else value
    return (" and ".join(sorted(rows)) if isinstance(rows, list | set) else str(value)) or "none"


def _contradictions(values: Mapping[str, Any]) -> Iterator[str]:
    """What a build never writes about its result: no outputs, or outputs without their content."""
    outputs, closure = values["outputs"], values["closure"]
    if values["store_path"] not in outputs:
        yield "the value of 'store_path' is not among the 'outputs'"
    if lacking := next((path for path in outputs if path not in closure), None):
        yield f"the 'closure' has no hash of the output {lacking}"


def _broken(path: Path, *problems: str) -> InputError:
    place = Place(file=str(path))
    return InputError([Finding(place=place, code=Code.BROKEN_MANIFEST, message=problem) for problem in problems])


# Readers of one value. They raise ValueError, TypeError, KeyError or AttributeError.


def _if(valid: Callable[[Any], object]) -> Reader:
    """Reads a value that is `valid`."""

    def read(value: Any) -> Any:
        if not valid(value):
            raise ValueError
        return value

    return read


_line = _if(lambda value: isinstance(value, str) and value.isprintable())
_count = _if(lambda value: type(value) is int and value >= 0)
_dict = _if(lambda value: type(value) is dict)
_name = _if(ATTRIBUTE.fullmatch)
_digest = _if(re.compile("sha256:[0-9a-f]{64}").fullmatch)


def _output_readers(backend: Any) -> dict[str, Reader]:
    """The readers of what the backend called `backend` writes; the values of an unknown backend are not judged."""
    try:
        forms = backend_of(backend).forms
    except (KeyError, TypeError):
        return {}
    path, content = _if(forms.path.fullmatch), _if(forms.content.fullmatch)
    return {
        "derivation": _if(forms.derivation.fullmatch),
        "store_path": path,
        "staged": lambda value: value and path(value),
        "outputs": _paths(path),
        "python_modules": _paths(path),
        "closure": lambda value: {path(key): content(digest) for key, digest in _dict(value).items()},
    }


def _paths(path: Reader) -> Reader:
    return lambda value: tuple(map(path, _if(lambda paths: type(paths) is list)(value)))


def _machine(value: Any) -> Builder:
    row = _dict(value)
    if set(row) != {"system", "cpu", "cores"}:
        raise KeyError
    return Builder(system=_line(row["system"]), cpu=_line(row["cpu"]), cores=_count(row["cores"]))


def _untested(value: Any) -> dict[str, str]:
    return {stage_of(stage).name: _line(reason) for stage, reason in _dict(value).items()}


def _seed(value: Any) -> dict[str, int]:
    row = _dict(value)
    if row and not (set(row) == {"found", "of"} and _count(row["found"]) <= _count(row["of"])):
        raise ValueError
    return row  # type: ignore[no-any-return]


_OPTIONAL = frozenset({"architectures", "compilers", "memory", "needs", "python_modules", "seed", "staged", "torch"})
"""Fields that a manifest of an earlier version lacks."""

_READERS: dict[str, Reader] = {
    "name": _name,
    "package": _name,
    "version": _line,
    "branch": _line,
    "commit": _if(_COMMIT.fullmatch),
    "nixpkgs": _if(_PIN.fullmatch),
    "backend": backend_of,
    "closure_size": _count,
    "started": _if(lambda value: value.endswith("Z") and datetime.fromisoformat(value)),
    "seconds": _if(lambda value: type(value) in {int, float} and 0 <= value < math.inf),
    "built": _if(lambda value: type(value) is bool),
    "machine": _machine,
    "untested": _untested,
    "memory": _count,
    "seed": _seed,
    "architectures": _paths(_line),
    "compilers": _paths(_line),
    "torch": _line,
    "needs": lambda value: {_name(key): _digest(content) for key, content in _dict(value).items()},
}
