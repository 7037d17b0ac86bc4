"""What a recipe evaluates to: the record that `standin/record.nix` makes, as typed values.

Texts are as in the recipe; nothing is judged here. What depends on the real nixpkgs (a version that the recipe does not
set, the version of the toolkit's plain package set) is what the stand-in has for it; `sets` lists the attributes that
the recipe sets itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from ci_compiler.errors import Place
from ci_compiler.hardware.families import DEFAULT
from ci_compiler.recipes import shell_variables as shell

_ENVIRONMENT_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
# Attributes with a field of their own; `Evaluation.attributes` has the others that a recipe sets.
_WITH_A_FIELD = frozenset({
    "name", "pname", "version", "ninjaFlags", "requiredSystemFeatures", "cmakeFlags", "preConfigure", "env", "src",
    "srcs", "patches", "meta", "passthru",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedSource:
    """The arguments of a nixpkgs fetcher; '' where the recipe gives none."""

    name: str
    fetcher: str  # the function's name: "fetchFromGitHub"
    url: str = ""
    owner: str = ""
    repo: str = ""
    rev: str = ""  # the revision or tag
    hash: str = ""
    submodules: bool = False
    others: tuple[str, ...] = ()  # the names of further arguments, of `Evaluation.used` alone
    place: Place | None = None  # where its hash is written, or else its revision; of `Evaluation.used` alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch: fetched (`url`, `hash`), or a file beside the recipe (`path`)."""

    name: str
    url: str = ""
    hash: str = ""
    path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """An archive that a recipe imports Nix code from, by `fetchTarball` or the like; `hash` is '' if none is given."""

    url: str
    hash: str = ""
    revision: str = ""  # the revision or channel, if it is a nixpkgs


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlaid:
    """A top-level attribute that an overlay sets, after all overlays."""

    toolkit: str = ""  # for a toolkit's package set: its attribute
    version: str = ""
    sources: tuple[EvaluatedSource, ...] = ()
    patches: tuple[Patch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """An evaluated recipe, or the torch that it uses (`torch`), whose `path` is the file that sets its name."""

    path: Path
    name: str  # pname and version
    pname: str
    version: str
    drv_path: str  # the derivation's store path: equal for equal builds
    system: str
    platforms: tuple[str, ...]
    description: str = ""
    long_description: str = ""
    meta: Mapping[str, object] = field(default_factory=dict)

    package: str = "other"  # "torch", "torchvision", "torchaudio", "other"
    attribute: str = ""  # its attribute in nixpkgs: "python3Packages.torch"
    python: str = ""  # the Python of that package set: "3.13"
    pin: str = ""  # the nixpkgs revision of the package; '' for the nixpkgs that the recipe is called with
    # of the package there, what the stand-in does not know: "release", "arguments", "inputs"
    unknown: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()  # every nixpkgs revision that the recipe imports, '' for `<nixpkgs>`
    config: Mapping[str, object] = field(default_factory=dict)  # as given to `import nixpkgs`
    overlays: tuple[tuple[str, ...], ...] = ()  # the top-level attributes that each overlay sets
    overlaid: Mapping[str, Overlaid] = field(default_factory=dict)
    toolkit_attribute: str = ""  # the toolkit's package set in effect
    toolkit_version: str = ""  # "13.0"
    families: tuple[str, ...] = ()  # those it is built for: by the override, else by the configuration

    override: Mapping[str, object] = field(default_factory=dict)  # what `override` was given
    changes: tuple[str, ...] = ()  # the other packages that the recipe changes, by name
    ninja_flags: tuple[str, ...] = ()
    required_system_features: tuple[str, ...] = ()
    cmake_flags: tuple[str, ...] = ()  # with those that hooks add to `cmakeFlags`
    pre_configure: str = ""
    env: Mapping[str, object] = field(default_factory=dict)
    exports: Mapping[str, str] = field(default_factory=dict)  # the build's environment, see `shell.exported`
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the words of exports such as CXXFLAGS
    passthru: Mapping[str, object] = field(default_factory=dict)
    sources: tuple[EvaluatedSource, ...] = ()  # those that the recipe sets
    patches: tuple[Patch, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict)  # those set by the recipe that have no field here
    sets: tuple[str, ...] = ()  # the names of all attributes that the recipe sets

    torch: Evaluation | None = None  # the torch that a torchvision or torchaudio is built with
    inner: tuple[Evaluation, ...] = ()  # the other packages that it changes or makes and is built with, at any depth
    unseen: int = 0  # how many of those cannot be evaluated
    torches: tuple[str, ...] = ()  # the derivation paths of every torch that it is built with
    propagated_torch: tuple[str, ...] = ()  # the derivation paths of the torches that it propagates
    propagated_outputs: tuple[str, ...] = ()  # the output that each of them gives: site-packages is in "out"
    imports: tuple[Path, ...] = ()  # Nix files of the folder that the recipe imports, directly or not
    reads: tuple[Path, ...] = ()  # other paths in the folder that the recipe or its imports name
    fetched: tuple[Fetch, ...] = ()
    used: tuple[EvaluatedSource, ...] = ()  # the sources and patches that the recipe uses, in their order
    # Where things are written: "pname", "override.gpuTargets", "meta.platforms", "env.X", "config.allowUnfree",
    # "passthru.gpuArch", "nixpkgs.overlays".
    places: Mapping[str, Place] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[Evaluation, ...]:
        """All that the recipe makes or changes: the package, its torch, and what else is inside."""
        return (self, *filter(None, [self.torch]), *self.inner)

    @property
    def toolkit_support(self) -> bool:
        """Whether it is built for the family whose toolkit the record has."""
        return DEFAULT in self.families

    @property
    def gpu_targets(self) -> tuple[str, ...]:
        """The `gpuTargets` that `override` was given, as written."""
        return texts(self.override.get("gpuTargets"))

    @property
    def max_jobs(self) -> str:
        """The `MAX_JOBS` of the build's environment; '' if it is not set."""
        return self.exports.get("MAX_JOBS", "")


def texts(value: object) -> tuple[str, ...]:
    """The strings of a Nix list, or the words of a string; () for anything else."""
    if isinstance(value, str):
        return tuple(value.split())
    if isinstance(value, Sequence):
        return tuple(_text(item) for item in value)
    return ()


def _text(value: object) -> str:
    """A value as in a build's environment."""
    if isinstance(value, bool):
        return "1" if value else ""
    if isinstance(value, Mapping):
        return str(value.get("path") or value.get("name") or _mapping(value.get("source")).get("name") or "")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(_text, value))
    return "" if value is None else str(value)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The folders that an evaluation may read, resolved, and the user's name for each."""

    named: Mapping[Path, Path]

    def name(self, file: str | Path) -> Path | None:
        """The user's name for a file that Nix reports; None outside the folders."""
        for real, named in self.named.items():
            if Path(file).is_relative_to(real):
                return named / Path(file).relative_to(real)
        return None

    def place(self, at: Sequence[Any]) -> Place | None:
        """The place of Nix's [file, line, column]; None outside the folders."""
        file = self.name(at[0])
        return None if file is None else Place(file=str(file), line=at[1], column=at[2])


def read(data: Mapping[str, Any], *, path: Path, folders: Folders) -> Evaluation:
    """The evaluation of the recipe `path`, from the record `data` of `record.nix`."""
    record = _mapping(data["record"])
    written = sorted(_mapping(record.get("places")).items())
    places = {name: place for name, at in written if (place := folders.place(at))}
    meta = _mapping(data["meta"])
    torch, inner = record.get("torch"), record.get("inner", ())
    return Evaluation(
        path=path,
        **{name: data[name] for name in ("name", "pname", "version", "drv_path", "system")},
        platforms=texts(meta.get("platforms")),
        description=_text(meta.get("description")),
        long_description=_text(meta.get("longDescription")),
        meta=meta,
        places=places,
        torch=_nested(torch, path, folders) if torch else None,
        inner=tuple(_nested(one, path, folders) for one in inner if isinstance(one, Mapping)),
        unseen=sum(not isinstance(one, Mapping) for one in inner),
        **_nixpkgs_fields(record, folders),
        **_attribute_fields(record, folders),
    )


def _nested(data: Mapping[str, Any], path: Path, folders: Folders) -> Evaluation:
    """A package inside a recipe; its file is where its name, or else its arguments, are set."""
    written = _mapping(_mapping(data["record"]).get("places"))
    names = ("pname", "override.gpuTargets", "preConfigure")
    places = (folders.place(written[name]) for name in names if name in written)
    file = next((Path(place.file) for place in places if place), path)
    return read(data, path=file, folders=folders)


def _nixpkgs_fields(record: Mapping[str, Any], folders: Folders) -> dict[str, Any]:
    """The fields about where a package comes from."""
    if not record:
        return {}
    return {
        **{name: record[name] for name in ("package", "attribute", "python", "pin")},
        **{
            name: texts(record[name])
            for name in ("unknown", "changes", "torches", "propagated_torch", "propagated_outputs")
        },
        **{name: _mapping(record[name]) for name in ("config", "override", "passthru")},
        "overlays": tuple(map(tuple, record["overlays"])),
        "overlaid": {name: _overlaid(value, folders) for name, value in sorted(_mapping(record["overlaid"]).items())},
        "toolkit_attribute": record["toolkit"]["attribute"],
        "toolkit_version": record["toolkit"]["version"],
        "families": texts(record["families"]),
    }


def _overlaid(value: object, folders: Folders) -> Overlaid:
    data = _mapping(value)
    return Overlaid(
        toolkit=_text(data.get("toolkit")),
        version=_text(data.get("version")),
        sources=_sources(data),
        patches=_patches(data.get("patches"), folders),
    )


def _attribute_fields(record: Mapping[str, Any], folders: Folders) -> dict[str, Any]:
    """The fields about how it is built."""
    attributes = _mapping(record.get("attributes"))
    names = tuple(record.get("set", ()))
    env = _mapping(attributes.get("env"))
    before = {name: _text(value) for name, value in attributes.items() if _ENVIRONMENT_NAME.fullmatch(name)}
    before |= {name: _text(value) for name, value in env.items()}
    before["cmakeFlags"] = shlex.join(_flags(attributes.get("cmakeFlags")))  # hooks add to it
    exports = shell.exported("\n".join(_text(attributes.get(phase)) for phase in shell.PHASES), before)
    cmake_flags = shell.words(exports.pop("cmakeFlags"))
    return {
        "ninja_flags": _flags(attributes.get("ninjaFlags")),
        "required_system_features": texts(attributes.get("requiredSystemFeatures")),
        "cmake_flags": cmake_flags,
        "pre_configure": _text(attributes.get("preConfigure")),
        "env": env,
        "exports": exports,
        "flags": {
            name: shell.words(value)
            for name, value in exports.items()
            if name.endswith("FLAGS") or name == "NIX_CFLAGS_COMPILE"
        },
        "sources": _sources(attributes if {"src", "srcs"} & {*names} else {}),
        "patches": _patches(attributes.get("patches"), folders),
        "attributes": {name: attributes[name] for name in names if name in attributes and name not in _WITH_A_FIELD},
        "sets": names,
    }


def _flags(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError:
            return tuple(value.split())
    return texts(value)


def _sources(attributes: Mapping[str, Any]) -> tuple[EvaluatedSource, ...]:
    several = attributes.get("srcs")
    values = [attributes.get("src"), *(several if isinstance(several, list) else [])]
    return tuple(_source(_mapping(value)["source"]) for value in values if "source" in _mapping(value))


def sources_of(events: Sequence[Mapping[str, Any]], folders: Folders) -> tuple[EvaluatedSource, ...]:
    """The sources that an evaluation announced, each once, without those that are written outside the folders."""
    placed = ((event, folders.place(at) if (at := event["place"]) else None) for event in events)
    return tuple(
        dict.fromkeys(
            replace(_source(event), others=tuple(event["others"]), place=place)
            for event, place in placed
            if place or not event["place"]
        )
    )


def _source(data: Mapping[str, Any]) -> EvaluatedSource:
    given = _mapping(data["arguments"])
    return EvaluatedSource(
        name=data["name"],
        fetcher=data["fetcher"],
        url=_text(given.get("url")),
        owner=_text(given.get("owner")),
        repo=_text(given.get("repo")),
        rev=_text(given.get("rev") or given.get("tag")),
        hash=_text(given.get("hash") or given.get("sha256")),
        submodules=given.get("fetchSubmodules") is True,
    )


def _patches(values: object, folders: Folders) -> tuple[Patch, ...]:
    """The patches in `values`, without nixpkgs' own."""
    found = values if isinstance(values, list) else []
    own = (one for one in found if _mapping(_mapping(one).get("source")).get("fetcher") != "nixpkgs")
    return tuple(_patch(value, folders) for value in own)


def _patch(value: object, folders: Folders) -> Patch:
    data = _mapping(value)
    if "source" in data:
        source = _source(data["source"])
        return Patch(name=source.name, url=source.url, hash=source.hash)
    if "path" in data:
        return Patch(name=PurePosixPath(data["path"]).name, path=folders.name(data["path"]))
    return Patch(name=_text(value))
