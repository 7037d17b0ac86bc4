"""The files of a binary cache: what is written to a folder, and in which order they are uploaded."""

from __future__ import annotations

import hashlib
import os
import re
import time
from pathlib import Path

import pytest

from ci_compiler.backends.cache_files import add_archive, entry, held, stubs, sweep, unfetchable, upload, writable
from ci_compiler.backends.nar import text_archive
from ci_compiler.process import Ended
from tests.backends.programs import NUMPY, TORCH, Programs, fails, outcome, path
from tests.publishing.places import serving_folder

DAY = 86400


@pytest.mark.parametrize(
    ("url", "can"),
    [("file:///cache", True), ("s3://cache?region=eu", True), ("https://cache.example.org", False), ("ssh://a", False)],
)
def test_a_folder_and_a_bucket_can_be_written(url: str, can: bool) -> None:
    assert writable(url) == can


def test_an_archive_is_described_by_its_entry(tmp_path: Path) -> None:
    archive = text_archive("text\n")
    digest = hashlib.sha256(archive).hexdigest()
    for store_path in (TORCH, NUMPY):
        add_archive(tmp_path, store_path, archive)
    assert (tmp_path / f"nar/{digest}.nar").read_bytes() == archive
    assert entry(tmp_path, TORCH) == tmp_path / f"{TORCH[11:43]}.narinfo"
    assert entry(tmp_path, TORCH).read_text("utf-8").splitlines() == [
        f"StorePath: {TORCH}",
        f"URL: nar/{digest}.nar",
        "Compression: none",
        f"FileHash: sha256:{digest}",
        f"FileSize: {len(archive)}",
        f"NarHash: sha256:{digest}",
        f"NarSize: {len(archive)}",
    ]
    (tmp_path / "nix-cache-info").touch()
    assert list(held(tmp_path)) == [TORCH, NUMPY]


def test_a_cache_claims_for_a_while_what_nix_must_not_miss(tmp_path: Path) -> None:
    with stubs(tmp_path, [NUMPY, TORCH]):
        assert list(held(tmp_path)) == [TORCH, NUMPY]
        lines = entry(tmp_path, NUMPY).read_text("utf-8").splitlines()
        assert lines[1:] == [
            f"URL: nar/{'0' * 52}.nar",
            "Compression: none",
            *(f"FileHash: sha256:{'0' * 52}", "FileSize: 1", f"NarHash: sha256:{'0' * 52}", "NarSize: 1"),
        ]
    assert list(tmp_path.iterdir()) == []


def damaged(folder: Path) -> list[str]:
    """A cache of a path that refers to four others: the archives of three are gone or other files."""
    names = ("torch-2.8.0", "numpy-2.0", "gone-1", "cut-1", "elsewhere-1", "stranger-1")
    root, _, *rest = paths = [path(name) for name in names]
    for number, one in enumerate(paths[:-1]):
        add_archive(folder, one, text_archive(f"{number}\n"))
    gone, cut, elsewhere = (entry(folder, one) for one in rest[:-1])
    archives = [folder / re.findall("URL: (.*)", file.read_text("utf-8"))[0] for file in (gone, cut)]
    archives[0].unlink()
    archives[1].write_bytes(b"x")
    elsewhere.write_text(elsewhere.read_text("utf-8").replace("URL: nar/", "URL: ../../nar/"), "utf-8")
    references = " ".join(Path(one).name for one in paths)
    entry(folder, root).write_text(f"{entry(folder, root).read_text('utf-8')}References: {references}\n", "utf-8")
    return sorted(rest[:-1])


def test_what_a_cache_has_no_archive_of_is_found_in_a_folder_and_on_a_server(tmp_path: Path) -> None:
    wrong = damaged(tmp_path)
    assert sorted(unfetchable(f"file://{tmp_path}", [TORCH])) == wrong
    with serving_folder(tmp_path) as address:
        assert sorted(unfetchable(address, [TORCH])) == wrong
    assert unfetchable(f"file://{tmp_path}", [NUMPY, path("stranger-1")]) == []
    assert unfetchable(f"file://{tmp_path}", []) == []
    assert unfetchable("ssh-ng://cache", [TORCH]) == []


def test_in_a_bucket_the_aws_cli_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    wrong = damaged(cache)
    programs = Programs(tmp_path, monkeypatch, "aws")
    absent = "echo 'An error occurred (404) when calling the HeadObject operation: Not Found' >&2; exit 254"
    programs.answer(
        {
            "aws --region eu s3 cp *": f'at="$5"; cat "{cache}/${{at#s3://cache/}}" 2>&- || {{ {absent}; }}',
            "aws --region eu s3api head-object *": f'test -e "{cache}/$8" && wc -c <"{cache}/$8" || {{ {absent}; }}',
        }
    )
    assert sorted(unfetchable("s3://cache?region=eu", [TORCH])) == wrong
    programs.answer({"aws --region eu s3api head-object *": fails("access denied", 255)})
    assert unfetchable("s3://cache?region=eu", [TORCH]) == []
    (programs.folder / "aws").unlink()
    assert unfetchable("s3://cache", [TORCH]) == []
    assert capsys.readouterr().out.splitlines() == [
        "not looked for: the archives in s3://cache?region=eu: access denied",
        "not looked for: the archives in s3://cache: aws is not on PATH",
    ]


def test_only_old_paths_of_a_name_are_removed(tmp_path: Path) -> None:
    old, fresh, other, broken = path("a-staged"), path("b-staged"), path("c-other"), path("d-staged")
    for number, store_path in enumerate((old, fresh, other, broken)):
        add_archive(tmp_path, store_path, str(number).encode())
        age = time.time() - (2 * DAY + 60 if store_path != fresh else 2 * DAY - 60)
        os.utime(entry(tmp_path, store_path), (age, age))
    (tmp_path / f"nar/{hashlib.sha256(b'3').hexdigest()}.nar").unlink()
    sweep(f"https://{tmp_path}", 2, "-staged")
    assert len(list(held(tmp_path))) == 4
    sweep(f"file://{tmp_path}?compression=none", 2, "-staged")
    assert list(held(tmp_path)) == [fresh, other]
    assert {file.read_bytes() for file in (tmp_path / "nar").iterdir()} == {b"1", b"2"}


def cache(folder: Path) -> Path:
    """A binary cache with TORCH and NUMPY."""
    folder.mkdir()
    (folder / "nix-cache-info").write_text("StoreDir: /nix/store\n", "utf-8")
    for store_path in (TORCH, NUMPY):
        add_archive(folder, store_path, store_path.encode())
    return folder


def test_in_a_folder_entries_come_after_archives_and_the_last_ones_last(tmp_path: Path) -> None:
    folder, target = cache(tmp_path / "made"), tmp_path / "deep/target"
    assert upload(folder, f"file://{target}", [TORCH, NUMPY], last=[TORCH], seconds=60) == Ended(status=0)
    assert {file.relative_to(target): file.read_bytes() for file in target.rglob("*") if file.is_file()} == {
        file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }
    entry(target, NUMPY).write_text("earlier", "utf-8")
    assert upload(folder, f"file://{target}", [NUMPY], last=(), seconds=60) == Ended(status=0)
    assert list(held(target)) == [TORCH, NUMPY]
    blocked = tmp_path / "blocked"
    (blocked / f"{NUMPY[11:43]}.narinfo").mkdir(parents=True)
    with pytest.raises(OSError, match=NUMPY[11:43]):
        upload(folder, f"file://{blocked}", [TORCH, NUMPY], last=[TORCH], seconds=60)
    assert not entry(blocked, TORCH).exists()
    assert len(list((blocked / "nar").iterdir())) == 2
    part = next(file for file in blocked.iterdir() if file.name.startswith("."))
    assert part.name == f".{NUMPY[11:43]}.narinfo.{os.getpid()}"


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", ""),
        ("?region=eu&profile=me&other=x", "--region eu --profile me "),
        ("?endpoint=s3.example.org", "--endpoint-url https://s3.example.org "),
        ("?endpoint=localhost:9000&scheme=http", "--endpoint-url http://localhost:9000 "),
    ],
)
def test_to_a_bucket_the_aws_cli_copies_the_last_entries_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, options: str
) -> None:
    programs = Programs(tmp_path, monkeypatch, "aws")
    last = [TORCH, NUMPY]
    assert upload(Path("made"), f"s3://cache{query}", [*last], last=last, seconds=60).status == 0
    start = f"aws {options}s3 cp --only-show-errors --recursive made s3://cache"
    files = [f"{store_path[11:43]}.narinfo" for store_path in last]
    assert programs.commands == [
        f"{start} --exclude *.narinfo",
        f"{start} --exclude {files[0]} --exclude {files[1]}",
        f"{start} --exclude * --include {files[0]} --include {files[1]}",
    ]
    programs.answer({"*--exclude *.narinfo": fails("access denied")})
    assert upload(Path("made"), "s3://cache", [TORCH], last=(), seconds=60).said == "access denied"
    assert len(programs.commands) == 1


def test_a_bucket_needs_the_aws_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Programs(tmp_path, monkeypatch)
    assert outcome(lambda: upload(tmp_path, "s3://cache", [], last=(), seconds=60)) == (
        "aws: aws is not on PATH; install the AWS CLI: Nix itself copies only whole closures to S3 [program-missing]"
    )
