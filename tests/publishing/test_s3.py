"""An index of wheels in a bucket, against a local server; and Amazon's own examples of signatures."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest

from ci_compiler.errors import StageError
from ci_compiler.publishing.plan import HeldVersion
from ci_compiler.publishing.s3 import MOST, Bucket, Keys, signed
from ci_compiler.publishing.target import place_failures, publish, upload
from ci_compiler.publishing.wheel_index import WheelIndex, files_of
from ci_compiler.secret import Secret
from tests.publishing.bucket import KEYS, handler
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
    assert proof["Authorization"].endswith(f",Signature={signature}")


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
    with pytest.raises(OSError, match="and S3 takes"):
        Bucket("http://127.0.0.1:9/wheels", "", KEYS).put("big.whl", path)
