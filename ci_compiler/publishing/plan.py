"""Decisions about uploads, and nothing else: what is to be uploaded, and which nights are to be removed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ci_compiler.units import grouped

DATE = "%Y%m%d"
"""How versions of nights spell their date."""


UPLOAD_DAYS = 36
"""The fewest days after which an upload counts as abandoned: a run takes 35 at most (GitHub Docs, "Limits")."""


class Upload(NamedTuple):
    """A file of `version` of a variant that is to be published; `digest` is its SHA-256 in hexadecimal digits.

    `commit` is the commit that it was built from, as a whole hash. `sbom` is the software bill of materials of the
    variant, which a place that takes any file keeps beside its files.
    """

    name: str
    digest: str
    path: Path
    variant: str
    version: str
    commit: str
    sbom: Path | None = None


class HeldFile(NamedTuple):
    """A file that a target holds: its SHA-256 ('': unknown, or of a broken upload), and whether users see it.

    `commit` is the commit that it was built from, and `variant` the variant that it is of; '' if the target does not
    know it.
    """

    digest: str
    shown: bool
    commit: str = ""
    variant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadPlan:
    """What there is to do for each file, by name.

    `upload` are missing. `present` are published with the same content. `refused` are published with another content.
    `resumed` were uploaded before, and are not shown yet. `replaced` are left over from a broken upload.
    """

    upload: tuple[str, ...]
    present: tuple[str, ...]
    refused: tuple[str, ...]
    resumed: tuple[str, ...]
    replaced: tuple[str, ...]

    @property
    def put(self) -> tuple[str, ...]:
        """The files whose content has to be sent."""
        return self.upload + self.replaced


def plan_upload(wanted: Mapping[str, str], held: Mapping[str, HeldFile]) -> UploadPlan:
    """What there is to do for the files `wanted`, digests by name, at a target that holds `held`.

    What is shown to users never changes: a file of the same name and another content is refused.
    """
    kinds: dict[str, list[str]] = {kind: [] for kind in ("upload", "present", "refused", "resumed", "replaced")}
    for name, digest in wanted.items():
        there = held.get(name)
        if there is None:
            kind = "upload"
        elif there.shown:
            kind = "present" if there.digest == digest else "refused"
        else:
            kind = "resumed" if there.digest == digest else "replaced"
        kinds[kind].append(name)
    return UploadPlan(**{kind: tuple(names) for kind, names in kinds.items()})


def taken(name: str, variant: str) -> str:
    """Why the file `name` is not published where one of this name is of another `variant`, even if both are equal."""
    return (
        f"{name}: the file of {variant} has the same name; tell them apart by a placeholder in `url` or "
        "`version: {local: …}`, or by the name of the file"
    )


def refusal(refused: Collection[str], version: str, earlier: str, commit: str) -> str:
    """Why the files `refused` are not published, and what to do; `earlier` is the commit of those that are, or ''."""
    known = {"": "", commit: ", from this commit: the build is not reproducible"}
    return (
        f"{' and '.join(sorted(refused))}: version {version} is published already, with another content"
        f"{known.get(earlier, f', from {earlier}')}; set a new version, or one for each night (`version: {{night: …}}`)"
    )


def release_of(version: str) -> str:
    """The release that a version of a variant is of: without its local part, which may differ between variants."""
    return version.partition("+")[0]


_RANKS = {"dev": 0, "a": 1, "alpha": 1, "b": 2, "beta": 2, "c": 3, "pre": 3, "preview": 3, "rc": 3}
_END, _LATER, _NUMBER = 4, 5, 6


def order_of(version: str) -> tuple[tuple[int, int], ...]:
    """A key by which versions sort, as in PEP 440: `dev`, `a`, `b` and `rc` come before the release."""
    words = re.findall(r"[0-9]+|[a-z]+", release_of(version).lower())
    ranks = ((_NUMBER, int(word)) if word.isdigit() else (_RANKS.get(word, _LATER), 0) for word in words)
    return (*ranks, (_END, 0))


class StagedVariant(NamedTuple):
    """A variant whose files of a release are all uploaded: the commit ('': unknown), and whether users see them."""

    commit: str
    shown: bool


def other_commit(staged: Mapping[str, StagedVariant], commit: str, precedes: Callable[[str, str], bool]) -> str:
    """Why files built from `commit` must not be added to a release that has the variants `staged`; '' if they may be.

    A release that users see stays that of its commit. One that they do not see is begun again from a newer commit;
    `precedes` says whether a commit is an ancestor of another one.
    """
    for name, held in staged.items():
        if held.commit != commit and held.commit and held.shown:
            return f"was published from {held.commit} ({name}), and this was built from {commit}; set a new version"
        if held.commit != commit and precedes(commit, held.commit):
            return f"has files of the newer commit {held.commit} ({name}), and this was built from {commit}"
    return ""


def waits_for(staged: Mapping[str, StagedVariant], every: Collection[str], commit: str) -> str:
    """What a release of `commit` with the variants `every` waits for, in words; '' if users may see it."""
    missing = sorted({*every} - {*staged})
    lacks = [f"{' and '.join(missing)} did not pass and get there yet"] if missing else []
    other = grouped(sorted(staged), lambda name: "" if staged[name].shown else staged[name].commit)
    lacks += [
        f"{' and '.join(names)} was built from {old}, this from {commit}; `ci-compile dispatch --all` builds every one"
        for old, names in other.items()
        if old not in {"", commit}
    ]
    return "; ".join(lacks)


class HeldVersion(NamedTuple):
    """A version of a variant that users see at a target. `variant` is '' where a version is of all variants."""

    variant: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nights:
    """Which nights are kept: those of the last `days`, and of each variant no more than `most` (0: no limit).

    `pattern` is that of their versions, with `{version}` and `{date}`; '' for none. `uploads` is how many days files
    are kept that were uploaded and never shown (0: no limit).
    """

    pattern: str
    days: int = 0
    most: int = 0
    uploads: int = 0

    def date(self, version: str) -> datetime | None:
        """The date of the night that made `version`, as UTC; None for a release."""
        form = re.escape(self.pattern).replace(r"\{version\}", "[0-9].*?").replace(r"\{date\}", "([0-9]{8})")
        match = re.fullmatch(rf"{form}(?:\+.*)?", version) if "{date}" in self.pattern else None
        try:
            return datetime.strptime(match[1], DATE).replace(tzinfo=UTC) if match else None
        except ValueError:
            return None


def expired(held: Iterable[HeldVersion], keep: Nights, now: datetime) -> tuple[HeldVersion, ...]:
    """The nights among `held` that are to be removed. Releases, and the last night of each variant, always stay."""
    nights: dict[str, list[tuple[datetime, HeldVersion]]] = {}
    for version in dict.fromkeys(held):
        if date := keep.date(version.version):
            nights.setdefault(version.variant, []).append((date, version))
    return tuple(
        version
        for dated in nights.values()
        for index, (date, version) in enumerate(sorted(dated, key=lambda night: night[0], reverse=True))
        if index and ((keep.most and index >= keep.most) or (keep.days and (now - date).days > keep.days))
    )
