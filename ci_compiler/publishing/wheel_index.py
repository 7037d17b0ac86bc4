"""An index of wheels: files under their digests, and pages that are written last.

The JSON page of a project is the truth: it is replaced only if nobody changed it since it was read, so that writers at
the same time lose nothing of each other. The HTML page follows from it, and is written until it is that of the last
JSON page. A file appears on pages only when it is whole, and is never written twice.

The pages are text: HTML (PEP 503) and JSON (PEP 691).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from email.message import Message
from functools import partial
from html import escape
from urllib.parse import quote

from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.files.folders import SBOM_FILE
from ci_compiler.outside import expected, object_of
from ci_compiler.publishing.distributions import metadata_of, pins_of, project_of
from ci_compiler.publishing.plan import (
    UPLOAD_DAYS,
    HeldFile,
    HeldVersion,
    StagedVariant,
    Upload,
    refusal,
    release_of,
    taken,
)
from ci_compiler.publishing.stores import Store, StoredFile
from ci_compiler.units import grouped

_META = {"api-version": "1.0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """A file on the page of a project: what PEP 691 says of it, and the package, variant and version that it is of.

    `digest` is its SHA-256. `yanked` is the reason why the file must not be installed (PEP 592); '' if it may be.
    `commit` is the commit that it was built from; '' on a page of an earlier version. `pins` are the distributions that
    it requires in one version, as `project==version`.
    """

    name: str
    digest: str
    requires_python: str
    package: str
    variant: str
    version: str
    yanked: str = ""
    commit: str = ""
    pins: tuple[str, ...] = ()


def place_of(file: IndexFile | Upload) -> str:
    """Where a file is, from the page of its project. Two contents never have the same place."""
    return f"files/{file.digest}/{file.name}"


def project_json(project: str, files: Iterable[IndexFile]) -> str:
    """The JSON page of a project. Keys that begin with `_` are the index's own (PEP 691)."""
    rows = [
        {
            "filename": file.name,
            "url": quote(place_of(file)),
            "hashes": {"sha256": file.digest},
            **({"requires-python": file.requires_python} if file.requires_python else {}),
            "yanked": file.yanked or False,
            "_file": asdict(file),
        }
        for file in files
    ]
    return json.dumps({"meta": _META, "name": project, "files": rows}, indent=1) + "\n"


def files_of(text: bytes | str) -> tuple[IndexFile, ...]:
    """The files on a JSON page that `project_json` wrote. Raises ValueError for another page."""
    try:
        rows = [expected(dict, row["_file"]) for row in object_of(text)["files"]]
        return tuple(IndexFile(**row | {"pins": tuple(row.get("pins", ()))}) for row in rows)
    except (KeyError, TypeError):
        message = "is not the page of a project that ci-runner wrote"
        raise ValueError(message) from None


def project_html(project: str, files: Iterable[IndexFile]) -> str:
    """The HTML page of a project."""
    return _html(
        project,
        (
            _link(
                f"{quote(place_of(file))}#sha256={file.digest}",
                file.name,
                {"data-requires-python": file.requires_python, "data-yanked": file.yanked},
            )
            for file in files
        ),
    )


def root_json(projects: Iterable[str]) -> str:
    """The JSON page of the index."""
    names = [{"name": project} for project in sorted(projects)]
    return json.dumps({"meta": _META, "projects": names}, indent=1) + "\n"


def root_html(projects: Iterable[str]) -> str:
    """The HTML page of the index."""
    return _html("Simple index", (_link(f"{project}/", project, {}) for project in projects))


def _link(to: str, text: str, attributes: Mapping[str, str]) -> str:
    more = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items() if value)
    return f'<a href="{escape(to)}"{more}>{escape(text)}</a><br>\n'


def _html(title: str, links: Iterable[str]) -> str:
    head = f'<meta charset="utf-8"><meta name="pypi:repository-version" content="1.0"><title>{escape(title)}</title>'
    return f"<!DOCTYPE html>\n<html><head>{head}</head><body>\n{''.join(links)}</body></html>\n"


_MARGIN = 5
"""How many days before its end an upload no longer counts, so that nothing is deleted while it is being shown."""

_ATTEMPTS = 50
"""The most attempts to write a page that others write as well."""

Change = Callable[[tuple[IndexFile, ...]], tuple[IndexFile, ...]]


class WheelIndex:
    """The files of `package` in the index of wheels in `store`; `shown` names the index in messages.

    `uploads` is after how many days `remove_abandoned` is called for an upload (0: never). Its methods also raise
    OSError if the store fails.
    """

    def __init__(self, store: Store, shown: str, package: str, uploads: int = 0) -> None:
        self._store = store
        self._shown = shown
        self._package = package
        self._patience = timedelta(days=uploads - _MARGIN) if uploads else None

    def held(self, wanted: Sequence[Upload]) -> Mapping[str, HeldFile]:
        """What the pages show, and what was uploaded whole before. What broke off between two pages is not shown."""
        held: dict[str, HeldFile] = {}
        for project, uploads in grouped(wanted, self._project).items():
            shown = {file.name: file for file in self._files(f"{project}/index.json")}
            for upload in uploads:
                if file := shown.get(upload.name):
                    half = file.digest == upload.digest and self.unfinished(upload.version, upload.variant)
                    held[upload.name] = HeldFile(file.digest, shown=not half, commit=file.commit, variant=file.variant)
                elif (there := self._store.find(f"{project}/{place_of(upload)}")) and _is_whole(there, upload):
                    held[upload.name] = HeldFile(upload.digest, shown=False)
        return held

    def put(self, file: Upload) -> None:
        """Uploads a file to the place that its digest names; no page shows it yet."""
        self._store.put(f"{self._project(file)}/{place_of(file)}", file.path)

    def stage(self, wanted: Sequence[Upload]) -> None:
        """Writes what each file is made of beside it, and a page below `.staged`, which no installer reads."""
        files = [self._described(upload) for upload in wanted]
        for file, upload in zip(files, wanted, strict=True):
            if upload.sbom:
                self._store.put(_keys(file)[1], upload.sbom)
        self._store.write(self._stage(wanted[0].version, wanted[0].variant), project_json(self._package, files))

    def staged(self, version: str, variants: Collection[str]) -> Mapping[str, StagedVariant]:
        """The variants with such a page, and those that are shown."""
        staged = {
            file.variant: StagedVariant(file.commit, shown=True)
            for _, file in self._own()
            if file.variant in variants and release_of(file.version) == release_of(version)
        }
        pages = {name: self._recent(self._stage(version, name)) for name in variants}
        return staged | {name: StagedVariant(page[0].commit, shown=False) for name, page in pages.items() if page}

    def finish(self, version: str, variants: Collection[str]) -> None:
        """Adds the files to the pages of their projects: a page shows those of all variants at once.

        Raises StageError if another job uploaded files of another commit meanwhile.
        """
        stages = [self._stage(version, variant) for variant in variants]
        files = [file for stage in stages for file in self._files(stage)]
        if len(commits := sorted({file.commit for file in files})) > 1:
            message = f"{self._package} {release_of(version)} has files of {' and '.join(commits)}; publish it again"
            raise failure(self._shown, Code.RELEASE_OTHER_COMMIT, message)
        for project, new in grouped(files, lambda file: project_of(file.name)).items():
            self._change(f"{project}/index.json", partial(_added, new=new))
            self._list(project)
        for stage in stages:
            self._store.delete(stage)

    def unfinished(self, version: str, variant: str) -> bool:
        """Whether the page of `stage` is there, which `finish` deletes when all other pages are written."""
        return self._store.find(self._stage(version, variant)) is not None

    def versions(self) -> Collection[HeldVersion]:
        """The versions of the package on the pages, those that are yanked included."""
        return {HeldVersion(file.variant, file.version) for _, file in self._own()}

    def needed(self, gone: Collection[HeldVersion]) -> Collection[HeldVersion]:
        """Those of which a file that stays requires exactly this version, or one that stays for that reason."""
        every, found = self._shown_files(), list[HeldVersion]()
        while True:
            left = {(self._package, *one) for one in gone if one not in found}
            pins = {pin for _, one in every if (one.package, one.variant, one.version) not in left for pin in one.pins}
            more = {
                HeldVersion(one.variant, one.version)
                for project, one in every
                if (one.package, one.variant, one.version) in left
                and not pins.isdisjoint({f"{project}=={version}" for version in (one.version, release_of(one.version))})
            }
            if not more:
                return found
            found += more

    def withdraw(self, versions: Collection[HeldVersion], because: str) -> None:
        """Yanks the files of versions (PEP 592); without a reason, takes them from the pages and then deletes them."""
        gone = [(project, file) for project, file in self._own() if (file.variant, file.version) in versions]
        for project, files in grouped(gone, lambda one: one[0]).items():
            self._change(f"{project}/index.json", _withdrawn({file.name for _, file in files}, because))
        for key in (key for _, file in gone for key in _keys(file)) if not because else ():
            self._store.delete(key)

    def remove_abandoned(self, before: datetime) -> int:
        """Deletes what is on no page of a project: stages of the package, and files of its projects without a stage.

        A stage of which users see a file already is still to be finished, and stays.
        """
        stages = {page: self._files(page.key) for page in self._store.files(".staged/")}
        own = {page: files for page, files in stages.items() if page.key.startswith(f".staged/{self._package}/")}
        projects = {project for project, _ in self._own()}
        projects |= {project_of(file.name) for files in own.values() for file in files}
        shown = _every(file for project in projects for file in self._files(f"{project}/index.json"))
        old = [page for page, files in own.items() if page.written < before and not shown & _every(files)]
        kept = shown | _every(file for page, files in stages.items() if page not in old for file in files)
        uploads = (file for project in projects for file in self._store.files(f"{project}/files/"))
        gone = [*old, *(file for file in uploads if file.written < before and file.key not in kept)]
        for file in gone:
            self._store.delete(file.key)
        return len(gone)

    def _recent(self, stage: str) -> tuple[IndexFile, ...]:
        """The files of a stage; none if `remove_abandoned` may be about to delete them."""
        there = self._store.find(stage) if self._patience else None
        is_old = there and self._patience and datetime.now(UTC) - there.written > self._patience
        return () if is_old else self._files(stage)

    def _own(self) -> list[tuple[str, IndexFile]]:
        """The files of the package on all pages, with their projects."""
        return [(project, file) for project, file in self._shown_files() if file.package == self._package]

    def _shown_files(self) -> list[tuple[str, IndexFile]]:
        """The files on all pages, with their projects."""
        return [(project, file) for project in self._projects() for file in self._files(f"{project}/index.json")]

    def _projects(self) -> list[str]:
        stored = self._store.read("index.json")
        return [row["name"] for row in object_of(stored.content)["projects"]] if stored else []

    def _described(self, upload: Upload) -> IndexFile:
        metadata = metadata_of(upload.path) if upload.path.suffix == ".whl" else Message()
        return IndexFile(
            name=upload.name,
            digest=upload.digest,
            requires_python=metadata.get("Requires-Python", ""),
            pins=pins_of(metadata),
            package=self._package,
            variant=upload.variant,
            version=upload.version,
            commit=upload.commit,
        )

    def _project(self, upload: Upload) -> str:
        if not (project := project_of(upload.name)):
            message = f"{upload.name} is no wheel or source distribution, which alone an index takes"
            raise failure(upload.variant, Code.PUBLISH_FAILED, message)
        return project

    def _stage(self, version: str, variant: str) -> str:
        return f".staged/{self._package}/{release_of(version)}/{variant}.json"

    def _files(self, page: str) -> tuple[IndexFile, ...]:
        stored = self._store.read(page)
        return self._read(page, stored.content) if stored else ()

    def _read(self, page: str, content: bytes) -> tuple[IndexFile, ...]:
        try:
            return files_of(content)
        except ValueError as error:
            raise failure(f"{self._shown}/{page}", Code.PUBLISH_FAILED, f"{error}; publish to another place") from None

    def _change(self, page: str, change: Change) -> None:
        """Changes a JSON page, and then writes the HTML page until both say the same."""
        for _ in range(_ATTEMPTS):
            stored = self._store.read(page)
            before = self._read(page, stored.content) if stored else ()
            after, project = change(before), page.partition("/")[0]
            tag = stored.tag if stored else ""
            if after == before or self._store.write(page, project_json(project, after), tag):
                self._follow(project)
                return
        raise failure(self._shown, Code.PUBLISH_FAILED, f"{page} is written by others all the time; publish again")

    def _follow(self, project: str) -> None:
        """Writes the HTML page of the JSON page that is stored, until no other one was stored meanwhile."""
        tag = None
        page = f"{project}/index.json"
        while (stored := self._store.read(page)) and stored.tag != tag:
            tag = stored.tag
            self._store.write(f"{project}/index.html", project_html(project, self._read(page, stored.content)))

    def _list(self, project: str) -> None:
        """Lists a project on the pages of the index."""
        tag = None
        while not (stored := self._store.read("index.json")) or stored.tag != tag:
            names = self._projects()
            if project not in names:
                self._store.write("index.json", root_json([*names, project]), stored.tag if stored else "")
            elif stored:
                tag = stored.tag
                self._store.write("index.html", root_html(names))


def _keys(file: IndexFile) -> tuple[str, str]:
    """The keys of a file and of its software bill of materials, which is beside it."""
    project = project_of(file.name)
    return f"{project}/{place_of(file)}", f"{project}/{place_of(replace(file, name=SBOM_FILE))}"


def _every(files: Iterable[IndexFile]) -> set[str]:
    return {key for file in files for key in _keys(file)}


def _is_whole(there: StoredFile, upload: Upload) -> bool:
    """Whether a file was uploaded to its end, and so recently that it is nobody's abandoned one."""
    recent = datetime.now(UTC) - there.written < timedelta(days=UPLOAD_DAYS - _MARGIN)
    return recent and there.size == upload.path.stat().st_size


def _added(there: tuple[IndexFile, ...], new: Sequence[IndexFile]) -> tuple[IndexFile, ...]:
    """The page `there` with `new`. Raises StageError for a name that then has two contents, or is of two variants."""
    known = {file.name: file for file in there}
    for file in new:
        other = known.setdefault(file.name, file)
        if other.variant != file.variant:
            raise failure(file.variant, Code.ADDRESS_SHARED, taken(file.name, other.variant))
        if other.digest != file.digest:
            message = refusal([file.name], file.version, other.commit, file.commit)
            raise failure(file.variant, Code.PUBLISHED_OTHERWISE, message)
    return tuple(sorted(known.values(), key=lambda file: file.name))


def _withdrawn(names: Collection[str], because: str) -> Change:
    """The change of a page that yanks the files `names`, or removes them where there is no reason."""

    def change(there: tuple[IndexFile, ...]) -> tuple[IndexFile, ...]:
        index_files = (file for file in there if because or file.name not in names)
        return tuple(replace(file, yanked=because) if file.name in names else file for file in index_files)

    return change
