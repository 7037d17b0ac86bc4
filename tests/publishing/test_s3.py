"""An index of wheels in a bucket, against a local server; and Amazon's own examples of signatures."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest

from ci_compiler.errors import StageError
from ci_compiler.publishing.plan import HeldVersion
from ci_compiler.publishing.s3 import MOST, Bucket, Keys, signed
from ci_compiler.publishing.stores import Stored, StoredFile
from ci_compiler.publishing.target import place_failures, publish, upload
from ci_compiler.publishing.wheel_index import WheelIndex, files_of
from ci_compiler.secret import Secret
from tests.publishing.bucket import KEYS, BucketHandler, handler
from tests.publishing.places import serving, wheel

EMPTY = hashlib.sha256(b"").hexdigest()


def quiet(_: str) -> None:
    pass


@pytest.mark.parametrize(
    ("method", "path", "headers", "digest", "signature"),
    [  # Amazon S3 API Reference, "Signature Calculations for the Authorization Header", first and second example
        (
            "GET",
            "/test.txt",
            {"Range": "bytes=0-9"},
            EMPTY,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test%24file.text",
            {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (  # the fourth
            "GET",
            "/?max-keys=2&prefix=J",
            {},
            EMPTY,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_signatures_are_those_of_the_examples(
    method: str, path: str, headers: dict[str, str], digest: str, signature: str
) -> None:
    at = datetime(2013, 5, 24, tzinfo=UTC)
    proof = signed(method, f"https://examplebucket.s3.amazonaws.com{path}", headers, digest, KEYS, at)
    names = sorted({"host", "x-amz-content-sha256", "x-amz-date", *map(str.lower, headers)})
    assert proof == {
        **headers,
        "Host": "examplebucket.s3.amazonaws.com",
        "x-amz-content-sha256": digest,
        "x-amz-date": "20130524T000000Z",
        "Authorization": "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        f"SignedHeaders={';'.join(names)},Signature={signature}",
    }


@pytest.fixture
def server() -> Iterator[tuple[str, type[BucketHandler]]]:
    made = handler()
    with serving(made) as address:
        yield f"{address}/wheels", made


Server = tuple[str, type[BucketHandler]]


@pytest.mark.parametrize(("prefix", "folder"), [("", ""), ("cu130", "cu130/")])
def test_an_object_is_written_found_listed_and_deleted(
    server: Server, tmp_path: Path, prefix: str, folder: str
) -> None:
    root, made = server
    bucket, source, key = Bucket(root, prefix, KEYS), tmp_path / "f.whl", "p/files/a 1+b.whl"
    source.write_bytes(b"wheel")
    assert (bucket.find(key), bucket.read(key), [*bucket.files("p/")]) == (None, None, [])
    made.written = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
    bucket.put(key, source)
    assert made.objects == {f"{folder}{key}": b"wheel"}
    written = datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert bucket.find(key) == StoredFile(key, 5, written)
    assert bucket.read(key) == Stored(b"wheel", f'"{hashlib.md5(b"wheel").hexdigest()}"')  # noqa: S324  (an ETag)
    bucket.put("p/files/b.whl", source)
    bucket.put("q/c.whl", source)
    assert [file.key for file in bucket.files("p/files/")] == [key, "p/files/b.whl"]
    assert {file.written for file in bucket.files("")} == {written}
    bucket.delete(key)
    bucket.delete(key)
    assert {*made.objects} == {f"{folder}p/files/b.whl", f"{folder}q/c.whl"}


def test_a_page_is_replaced_on_the_condition_that_it_is_the_one_that_was_read(server: Server) -> None:
    bucket = Bucket(server[0], "", KEYS)
    tag = f'"{hashlib.md5(b"{}").hexdigest()}"'  # noqa: S324  (an ETag)
    assert bucket.write("index.json", "{}", "") is True
    assert bucket.write("index.json", "other", "") is False
    assert bucket.write("index.json", "[]", tag) is True
    assert bucket.write("index.json", "other", tag) is False
    assert bucket.read("index.json").content == b"[]"  # type: ignore[union-attr]
    assert bucket.write("index.json", "{}") is True
    assert [dict(headers) for headers in server[1].pages[:1]] == [
        {"Content-Type": "application/vnd.pypi.simple.v1+json", "Cache-Control": "no-cache", "If-None-Match": "*"}
    ]
    assert "If-Match" not in dict(server[1].pages[-1])


def test_errors_of_the_storage_are_tried_again_and_then_reported(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root, made), slept = server, list[float]()
    bucket = Bucket(root, "cu130", KEYS)
    monkeypatch.setattr("ci_compiler.publishing.s3.sleep", slept.append)
    made.broken[:] = [503] * 3
    assert bucket.write("index.json", "{}")
    assert slept == [0, 0.5, 1, 1.5]
    for status, call, what in (
        (500, lambda: bucket.delete("p"), "DELETE of p with 500"),
        (500, lambda: [*bucket.files("p/")], "GET of the list of its objects with 500"),
        (404, lambda: bucket.write("index.json", "{}"), "PUT of index.json with 404"),
        (412, lambda: bucket.write("index.json", "{}"), "PUT of index.json with 412"),
        (403, lambda: bucket.find("p"), "HEAD of p with 403"),
    ):
        made.broken[:] = [status] * 4
        with pytest.raises(OSError, match=f"^{re.escape(root)}/cu130 answered {what}$"):
            call()


def test_what_s3_would_not_say_of_an_object_is_an_error_of_the_place(server: Server) -> None:
    root, made = server
    made.objects["p/a.whl"] = b""
    made.said = "yesterday"
    for call in (lambda: Bucket(root, "p", KEYS).find("a.whl"), lambda: [*Bucket(root, "p", KEYS).files("")]):
        with pytest.raises(OSError, match=f"^{re.escape(root)}/p describes a.whl in another form than S3: .*yesterday"):
            call()


def test_a_bucket_is_an_index(tmp_path: Path) -> None:
    made = handler()
    with serving(made) as address:

        def index(keys: Keys = KEYS) -> WheelIndex:
            return WheelIndex(Bucket(f"{address}/wheels", "cu130", keys), "s3://wheels/cu130", "fastpath")

        wheels = [wheel(tmp_path / str(number), f"1.{number}+cu130") for number in range(3)]
        upload(index(), wheels[:1], quiet)
        assert not [key for key in made.objects if "staged" not in key and key.endswith("html")]
        made.broken.append(503)
        publish(index(), wheels[:1], quiet)
        threads = [Thread(target=publish, args=(index(), [one], quiet)) for one in wheels]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        index().withdraw([HeldVersion("fastpath-cpu", "1.2+cu130")], "wrong results")
        files = files_of(made.objects["cu130/fastpath/index.json"])
        assert [(file.version, file.yanked) for file in files] == [
            ("1.0+cu130", ""),
            ("1.1+cu130", ""),
            ("1.2+cu130", "wrong results"),
        ]
        assert made.objects["cu130/fastpath/index.html"].count(b"<a ") == 3
        index().withdraw([HeldVersion("fastpath-cpu", "1.1+cu130")], "")
        there = {*made.objects}
        index().put(wheel(tmp_path / "orphan", "1.9+cu130"))
        assert index().remove_abandoned(datetime.now(UTC) - timedelta(days=1)) == 0
        assert index().remove_abandoned(datetime.now(UTC) + timedelta(days=1)) == 1
        assert {*made.objects} == there
        assert sum(key.endswith(".whl") for key in made.objects) == 2
        assert made.refused == []
        other = index(Keys(id=KEYS.id, secret=Secret("other"), region=KEYS.region))
        with pytest.raises(StageError, match="with 403"), place_failures("fastpath-cpu"):
            publish(other, wheels, quiet)


def test_a_file_that_s3_does_not_take_at_once_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "big.whl"
    with path.open("wb") as file:
        file.truncate(MOST + 1)  # takes no space
    with pytest.raises(OSError, match=r"^big.whl has 5.3 GB, and S3 takes 5.3 GB in one request; publish it"):
        Bucket("http://127.0.0.1:9/wheels", "", KEYS).put("big.whl", path)
