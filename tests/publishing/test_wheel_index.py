"""An index of wheels in a folder: what pip installs from it, and what broken uploads leave."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest
import requests

from ci_compiler.codes import Code
from ci_compiler.errors import StageError
from ci_compiler.publishing.plan import HeldFile, HeldVersion, Nights, StagedVariant, Upload, expired
from ci_compiler.publishing.stores import FolderStore
from ci_compiler.publishing.target import publish, upload
from ci_compiler.publishing.wheel_index import (
    IndexFile,
    WheelIndex,
    files_of,
    place_of,
    project_html,
    project_json,
    root_html,
    root_json,
)
from tests.publishing.places import COMMIT, serving_folder, wheel


def quiet(_: str) -> None:
    pass


def index(root: Path) -> WheelIndex:
    return WheelIndex(FolderStore(root), str(root), "fastpath")


def shown(root: Path) -> dict[str, str]:
    """The files on the JSON page, with why they are yanked; the HTML page must say the same."""
    files = files_of((root / "fastpath/index.json").read_bytes())
    html = (root / "fastpath/index.html").read_text("utf-8")
    assert [f">{file.name}</a>" in html for file in files] == [True] * html.count("<a ")
    return {file.name: file.yanked for file in files}


def pip(address: str, wanted: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--isolated", "install", "--no-deps", *more]
    command += ["--no-compile", "--no-cache-dir", "--target", str(folder), "--index-url", address, wanted]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PIP_CONFIG_FILE": os.devnull}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


YANKED = IndexFile(
    name="a-1+b-py3-none-any.whl",
    digest="a1",
    requires_python=">=3.9",
    package="fastpath",
    variant="cpu",
    version="1+b",
    yanked='wrong "results"',
    commit=COMMIT,
)
PLAIN = replace(YANKED, name="a-2-py3-none-any.whl", digest="b2", requires_python="", version="2", yanked="")
HEAD = '<meta charset="utf-8"><meta name="pypi:repository-version" content="1.0">'


def test_the_pages_of_a_project_are_those_of_pep_691_and_503() -> None:
    text = project_json("a", [YANKED, PLAIN])
    assert files_of(text) == (YANKED, PLAIN)
    page = json.loads(text)
    own = [row.pop("_file") for row in page["files"]]
    assert [file["commit"] for file in own] == [COMMIT, COMMIT]
    assert page == {
        "meta": {"api-version": "1.0"},
        "name": "a",
        "files": [
            {
                "filename": YANKED.name,
                "url": "files/a1/a-1%2Bb-py3-none-any.whl",
                "hashes": {"sha256": "a1"},
                "requires-python": ">=3.9",
                "yanked": 'wrong "results"',
            },
            {"filename": PLAIN.name, "url": f"files/b2/{PLAIN.name}", "hashes": {"sha256": "b2"}, "yanked": False},
        ],
    }
    assert project_html("a", [YANKED, PLAIN]) == (
        f"<!DOCTYPE html>\n<html><head>{HEAD}<title>a</title></head><body>\n"
        '<a href="files/a1/a-1%2Bb-py3-none-any.whl#sha256=a1" data-requires-python="&gt;=3.9"'
        f' data-yanked="wrong &quot;results&quot;">{YANKED.name}</a><br>\n'
        f'<a href="files/b2/{PLAIN.name}#sha256=b2">{PLAIN.name}</a><br>\n'
        "</body></html>\n"
    )


def test_the_pages_of_the_index_list_its_projects() -> None:
    assert json.loads(root_json(["b", "a"])) == {
        "meta": {"api-version": "1.0"},
        "projects": [{"name": "a"}, {"name": "b"}],
    }
    assert root_html(["b", "a"]) == (
        f"<!DOCTYPE html>\n<html><head>{HEAD}<title>Simple index</title></head><body>\n"
        '<a href="b/">b</a><br>\n<a href="a/">a</a><br>\n</body></html>\n'
    )


@pytest.mark.parametrize(
    "text", ["{}", '{"files": [{}]}', '{"files": [{"_file": []}]}', '{"files": [{"_file": {"a": 1}}]}']
)
def test_the_page_of_another_program_is_not_changed(tmp_path: Path, text: str) -> None:
    (tmp_path / "fastpath").mkdir()
    (tmp_path / "fastpath/index.json").write_text(text, "utf-8")
    message = f"{tmp_path}/fastpath/index.json: is not the page of a project that ci-runner wrote; publish to another"
    with pytest.raises(StageError, match=f"^{re.escape(message)} place "):
        index(tmp_path).held([wheel(tmp_path / "a")])
    assert (tmp_path / "fastpath/index.json").read_text("utf-8") == text


def test_pip_installs_from_it_and_not_what_was_withdrawn(tmp_path: Path) -> None:
    root = tmp_path / "index"
    for version in ("1.4.0", "1.5.0"):
        publish(index(root), [wheel(tmp_path / version, version, text=version)], quiet)
    index(root).withdraw([HeldVersion("fastpath-cpu", "1.5.0")], 'wrong "results" <on sm90>')
    assert shown(root)["fastpath-1.5.0-py3-none-any.whl"].startswith("wrong")
    with serving_folder(root) as address:
        done = pip(address, "fastpath", tmp_path / "installed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "installed/fastpath.py").read_text("utf-8") == "TEXT = '1.4.0'\n"
    assert 'data-requires-python="&gt;=3.9"' in (root / "fastpath/index.html").read_text("utf-8")


def test_nothing_is_published_twice(tmp_path: Path) -> None:
    root = tmp_path / "index"
    said: list[str] = []
    publish(index(root), [wheel(tmp_path / "a")], quiet)
    publish(index(root), [wheel(tmp_path / "a")], said.append)
    assert said == ["fastpath-1.4.0-py3-none-any.whl: published already"]
    with pytest.raises(
        StageError, match="published already, with another content, from this commit: the build is not"
    ) as raised:
        publish(index(root), [wheel(tmp_path / "b", text="other")], quiet)
    assert raised.value.findings[0].code is Code.PUBLISHED_OTHERWISE
    with pytest.raises(
        StageError, match=f"1.4.0-py3-none-any.whl: version 1.4.0 is .* from {COMMIT}; set a new version"
    ):
        publish(index(root), [wheel(tmp_path / "b", text="other", commit="d" * 40)], quiet)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("where", ["in-put", "after-put", "in-finish", "before-html"])
def test_a_broken_upload_shows_nothing_half_and_is_resumed(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "index"
    publish(index(root), [wheel(tmp_path / "old", "1.3.0")], quiet)
    first, second = (
        wheel(tmp_path / build, text=build)._replace(name=f"fastpath-1.4.0-{build}-py3-none-any.whl") for build in "12"
    )
    wanted = [first, second]
    real, writes = shutil.copyfile, FolderStore.write

    def half(source: Path, target: Path) -> None:
        Path(target).write_bytes(Path(source).read_bytes()[:10])
        raise Killed

    def write(store: FolderStore, key: str, text: str, tag: str | None = None) -> bool:
        if key.endswith("fastpath/index.json" if where == "in-finish" else "fastpath/index.html"):
            raise Killed
        return writes(store, key, text, tag)

    with monkeypatch.context() as patch, pytest.raises(Killed):  # noqa: PT012
        patch.setattr(Path, "unlink", lambda *_, **__: None)  # a process that is killed cleans nothing up
        if where == "in-put":
            index(root).put(first)
            patch.setattr(shutil, "copyfile", half)
        elif where in {"in-finish", "before-html"}:
            patch.setattr(FolderStore, "write", write)
        upload(index(root), wanted, quiet)
        if where == "after-put":
            raise Killed
        index(root).finish("1.4.0", ["fastpath-cpu"])
    assert shutil.copyfile is real
    html = (root / "fastpath/index.html").read_text("utf-8")
    assert html.count("<a ") == 1, "users of the page see the old file alone"
    said: list[str] = []
    publish(index(root), wanted, said.append)
    assert len(shown(root)) == 3
    again = {"in-put": 1, "after-put": 0, "in-finish": 0, "before-html": 0}[where]
    assert sum(": uploaded" in line and "before" not in line for line in said) == again


def test_writers_at_the_same_time_lose_no_file(tmp_path: Path) -> None:
    root = tmp_path / "index"
    uploads = [wheel(tmp_path / str(number), f"1.{number}") for number in range(8)]
    threads = [Thread(target=publish, args=(index(root), [one], quiet)) for one in uploads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(shown(root)) == 8


def test_two_contents_of_one_name_at_the_same_time(tmp_path: Path) -> None:
    root = tmp_path / "index"
    first, second = wheel(tmp_path / "a"), wheel(tmp_path / "b", text="other", variant="fastpath-sm90")
    upload(index(root), [first], quiet)
    upload(index(root), [second], quiet)
    index(root).finish("1.4.0", [first.variant])
    with pytest.raises(StageError, match="the file of fastpath-cpu has the same name"):
        index(root).finish("1.4.0", [second.variant])
    file = files_of((root / "fastpath/index.json").read_bytes())[0]
    assert (root / "fastpath" / place_of(file)).read_bytes() == first.path.read_bytes()


EQUAL_OR_NOT = pytest.mark.parametrize("text", ["", "AVX-512"], ids=["equal bytes", "other bytes"])


@EQUAL_OR_NOT
def test_a_file_of_another_variant_is_refused_by_its_name_and_never_called_irreproducible(
    text: str, tmp_path: Path
) -> None:
    one = wheel(tmp_path / "a", variant="fastpath-avx2")
    two = wheel(tmp_path / "b", variant="fastpath-avx512", text=text)
    publish(index(tmp_path / "index"), [one], quiet)
    with pytest.raises(StageError, match=f"^fastpath-avx512: {one.name}: the file of fastpath-avx2 has the same name;"):
        publish(index(tmp_path / "index"), [two], quiet)
    assert shown(tmp_path / "index") == {one.name: ""}


@EQUAL_OR_NOT
def test_a_whole_release_with_two_variants_of_one_name_is_not_shown(text: str, tmp_path: Path) -> None:
    names = ["fastpath-avx2", "fastpath-avx512"]
    for name, content in zip(names, ["", text], strict=True):
        upload(index(tmp_path / "index"), [wheel(tmp_path / name, variant=name, text=content)], quiet)
    with pytest.raises(StageError, match=r"^fastpath-avx512: .*: the file of fastpath-avx2 has the same name;"):
        index(tmp_path / "index").finish("1.4.0", names)
    assert not (tmp_path / "index/fastpath/index.json").exists()


def test_a_whole_release_is_shown_at_once(tmp_path: Path) -> None:
    root, names = tmp_path / "index", ["fastpath-cpu", "fastpath-sm90"]
    uploads = [wheel(tmp_path / name, f"1.4.0+{name[9:]}", variant=name) for name in names]
    upload(index(root), uploads[:1], quiet)
    assert index(root).staged("1.4.0", names) == {names[0]: StagedVariant(COMMIT, shown=False)}
    assert not (root / "fastpath/index.html").exists()
    upload(index(root), uploads[1:], quiet)
    index(root).finish("1.4.0", index(root).staged("1.4.0", names))
    assert len(shown(root)) == 2
    assert index(root).staged("1.4.0", names) == dict.fromkeys(names, StagedVariant(COMMIT, shown=True))
    assert [*(root / ".staged/fastpath").rglob("*.json")] == []


def test_only_distributions(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    path.touch()
    with pytest.raises(StageError, match="no wheel or source distribution"):
        publish(index(tmp_path / "index"), [Upload("data.zip", "a1", path, "data", "1", "c0ffee")], quiet)


NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def test_a_removed_night_leaves_no_file(tmp_path: Path) -> None:
    root = tmp_path / "index"
    wheels = [wheel(tmp_path / str(day), f"1.5.0.dev202611{day}") for day in (22, 23)]
    publish(index(root), wheels, quiet)
    keep = Nights(pattern="{version}.dev{date}", most=1)
    index(root).withdraw(expired(index(root).versions(), keep, NOW), "")
    assert [*shown(root)] == [wheels[1].name]
    assert [path.name for path in (root / "fastpath/files").iterdir()] == [wheels[1].digest]


def test_a_night_that_a_file_requires_is_needed(tmp_path: Path) -> None:
    root, nights = tmp_path / "index", [f"1.5.0.dev202611{day}" for day in (21, 22, 23)]
    for night in nights:
        publish(index(root), [wheel(tmp_path / night, f"{night}+cpu")], quiet)
    held = [HeldVersion("fastpath-cpu", f"{night}+cpu") for night in nights]
    assert index(root).needed(held) == []
    other = wheel(tmp_path / "other", metadata=f"Requires-Dist: Fastpath (=={nights[0]})\n")
    publish(WheelIndex(FolderStore(root), "", "other"), [other._replace(variant="other-cpu")], quiet)
    assert index(root).needed(held) == held[:1]
    assert index(root).needed(held[1:]) == []
    assert WheelIndex(FolderStore(root), "", "other").needed([HeldVersion("other-cpu", "1.4.0")]) == []


def test_what_is_needed_by_what_is_needed_is_needed(tmp_path: Path) -> None:
    root, nights = tmp_path / "index", [f"1.5.0.dev202611{day}" for day in (21, 22, 23)]
    for before, night in zip(["", *nights], nights, strict=False):
        more = f"Requires-Dist: fastpath=={before}; python_version > '3'\n" if before else ""
        publish(index(root), [wheel(tmp_path / night, night, metadata=more)], quiet)
    held = [HeldVersion("fastpath-cpu", night) for night in nights]
    assert {*index(root).needed(held[:2])} == {*held[:2]}


def test_what_a_file_is_made_of_is_beside_it_for_as_long_as_the_file_is_there(tmp_path: Path) -> None:
    root, sbom = tmp_path / "index", tmp_path / "sbom.cdx.json"
    sbom.write_text("{}", "utf-8")
    gone, shown_one, held, lost = (
        wheel(tmp_path / version, version)._replace(sbom=sbom) for version in ("1.3.0", "1.4.0", "1.5.0", "1.6.0")
    )
    publish(index(root), [gone], quiet)
    publish(index(root), [shown_one], quiet)
    upload(index(root), [held], quiet)
    upload(index(root), [lost], quiet)

    def beside() -> set[str]:
        return {path.parent.name for path in root.rglob("sbom.cdx.json")}

    with serving_folder(root) as address:
        page = requests.get(f"{address}/fastpath/index.json", timeout=30).json()
        urls = {file["filename"]: f"{address}/fastpath/{file['url']}" for file in page["files"]}
        at = urls[shown_one.name].rpartition("/")[0]
        assert requests.get(f"{at}/sbom.cdx.json", timeout=30).text == "{}"
    assert beside() == {gone.digest, shown_one.digest, held.digest, lost.digest}
    index(root).withdraw([HeldVersion("fastpath-cpu", "1.4.0")], "yanked, and still there")
    index(root).withdraw([HeldVersion("fastpath-cpu", "1.3.0")], "")
    (root / ".staged/fastpath/1.6.0/fastpath-cpu.json").unlink()
    assert index(root).remove_abandoned(datetime(2020, 1, 1, tzinfo=UTC)) == 0
    for path in filter(Path.is_file, root.rglob("*")):
        os.utime(path, (1, 1))
    (root / ".staged/fastpath/1.5.0/fastpath-cpu.json").touch()
    assert index(root).remove_abandoned(datetime.now(UTC) - timedelta(days=1)) == 2, (
        "a file without a page, and its own"
    )
    assert beside() == {shown_one.digest, held.digest}
    assert sorted(path.name for path in (root / "fastpath/files").iterdir()) == sorted(beside())


def test_packages_of_one_index_do_not_touch_each_other(tmp_path: Path) -> None:
    root, version = tmp_path / "index", HeldVersion("fastpath-cpu", "1.4.0")
    publish(WheelIndex(FolderStore(root), "", "other"), [wheel(tmp_path / "a")], quiet)
    publish(index(root), [wheel(tmp_path / "b", "1.5.0")], quiet)
    assert index(root).versions() == {HeldVersion("fastpath-cpu", "1.5.0")}
    assert index(root).staged("1.4.0", ["fastpath-cpu"]) == {}
    index(root).withdraw([version], "")
    assert len(shown(root)) == 2


@pytest.mark.parametrize(("age", "is_counted"), [(30, True), (32, False)])
def test_an_upload_counts_until_five_days_before_it_may_be_removed(tmp_path: Path, age: int, is_counted: bool) -> None:
    """By default, uploads are abandoned after 36 days."""
    root, file = tmp_path / "index", wheel(tmp_path / "a")
    upload(index(root), [file], quiet)
    written = (datetime.now(UTC) - timedelta(days=age)).timestamp()
    for path in filter(Path.is_file, root.rglob("*")):
        os.utime(path, (written, written))
    assert (file.name in index(root).held([file])) is is_counted
    kept = WheelIndex(FolderStore(root), "", "fastpath", 36)
    assert ("fastpath-cpu" in kept.staged("1.4.0", ["fastpath-cpu"])) is is_counted
    assert index(root).staged("1.4.0", ["fastpath-cpu"]) == {"fastpath-cpu": StagedVariant(COMMIT, shown=False)}


def test_an_upload_of_another_size_is_not_whole(tmp_path: Path) -> None:
    root, file = tmp_path / "index", wheel(tmp_path / "a")
    index(root).put(file)
    assert index(root).held([file]) == {file.name: HeldFile(file.digest, shown=False)}
    (root / "fastpath" / place_of(file)).write_bytes(b"half")
    assert index(root).held([file]) == {}


def test_uploads_that_were_never_shown_end(tmp_path: Path) -> None:
    root, old = tmp_path / "index", (NOW - timedelta(days=50)).timestamp()
    publish(index(root), [wheel(tmp_path / "shown", "1.3.0")], quiet)
    staged = wheel(tmp_path / "staged", "1.4.0")
    upload(index(root), [staged], quiet)
    other = WheelIndex(FolderStore(root), str(root), "other")
    upload(other, [wheel(tmp_path / "other", "1.4.1")], quiet)
    index(root).put(wheel(tmp_path / "orphan", "1.4.2"))
    (root / "fastpath/files/.half.whl.1.part").touch()
    for path in filter(Path.is_file, root.rglob("*")):
        os.utime(path, (old, old))
    fresh = wheel(tmp_path / "fresh", "1.4.3")
    upload(index(root), [fresh], quiet)
    assert index(root).staged("1.4.0", ["fastpath-cpu"]) != {}
    kept = WheelIndex(FolderStore(root), str(root), "fastpath", 40)
    assert kept.staged("1.4.0", ["fastpath-cpu"]) == {}, "it may be about to be removed"
    assert index(root).held([staged]) == {}, "it is uploaded again, and then is not old"
    before = datetime.now(UTC) - timedelta(days=40)
    assert kept.remove_abandoned(before) == 4, "a stage and its file, a file without one, half a file"
    names = {path.name for path in (root / "fastpath/files").rglob("*.whl")}
    assert names == {f"fastpath-{version}-py3-none-any.whl" for version in ("1.3.0", "1.4.1", "1.4.3")}
    assert kept.remove_abandoned(before) == 0
