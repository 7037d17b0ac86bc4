"""Ready publishers: their keys, which of them fit which kind of place, and what follows from a place."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.spec.publishers import Publisher, Retention, publisher
from tests.spec.published import assert_published

RELEASE, INDEX, TRUSTED, REGISTRY = "github-release", "wheel-index", "trusted-publishing", "registry"
SIMPLE = "https://example.org/simple"


def made(to: str, **keys: Any) -> Publisher:
    value = publisher({"to": to, **{name.replace("_", "-"): value for name, value in keys.items()}})
    assert isinstance(value, Publisher)
    return value


def test_the_schema_has_these_keys() -> None:
    assert_published(Publisher, Retention)


def test_a_command_stays_a_command() -> None:
    assert publisher("twine upload") == "twine upload"


@pytest.mark.parametrize(
    "good",
    [
        made(RELEASE),
        made(RELEASE, tag="{package}-v{version}", whole=True, retention={"most": 3}),
        made(INDEX, url="/srv/wheels"),
        made(INDEX, url="s3://wheels/x", endpoint="https://storage.example.org", retention={"nights": "40d"}),
        made(INDEX, url="/srv/wheels", whole=True),
        made(TRUSTED, url="https://example.org/legacy", index=SIMPLE),
        made(REGISTRY, url="https://example.org/team/image"),
        made(REGISTRY, url="https://example.org/a", image_tags=["@accelerator-tag@-{version}", "latest"]),
    ],
)
def test_these_keys_fit_their_place(good: Publisher) -> None:
    assert good.problem == ("", "")


@pytest.mark.parametrize(
    ("wrong", "key", "why"),
    [
        (made(INDEX), "url", "must be an absolute folder or s3://BUCKET/PREFIX"),
        (made(INDEX, url=SIMPLE), "url", "must be an absolute folder or s3://BUCKET/PREFIX"),
        (made(RELEASE, url="/srv"), "url", "is not needed: the release is in this repository"),
        (made(RELEASE, url=SIMPLE), "url", ""),
        (made(TRUSTED, index=SIMPLE), "url", ""),
        (made(TRUSTED, url="/srv", index=SIMPLE), "url", ""),
        (made(REGISTRY), "url", ""),
        (made(REGISTRY, url="s3://x/y"), "url", ""),
        (made(REGISTRY, url="https://example.org"), "url", ""),
        (made(REGISTRY, url="https://example.org/"), "url", ""),
        (made(RELEASE, index=SIMPLE), "index", "is what `trusted-publishing` needs, and nothing else has"),
        (made(TRUSTED, url=SIMPLE), "index", "is what `trusted-publishing` needs, and nothing else has"),
        (made(INDEX, url="/srv", tag="x{version}"), "tag", "is only for `github-release`"),
        (
            made(INDEX, url="/srv", image_tags=["x{version}"]),
            "image-tags",
            "is only for `registry`, and the first has ",
        ),
        (
            made(REGISTRY, url="https://h/a", image_tags=["latest"]),
            "image-tags",
            "is only for `registry`, and the first",
        ),
        (made(INDEX, url="/srv", endpoint=SIMPLE), "endpoint", "is only for a bucket"),
        (made(TRUSTED, url=SIMPLE, index=SIMPLE, whole=True), "whole", "is impossible where a file is shown at once, "),
        (made(INDEX, url="/srv/@target@", whole=True), "whole", "is impossible where a file is shown at once, "),
        (
            made(TRUSTED, url=SIMPLE, index=SIMPLE, retention={"most": 3}),
            "retention",
            "is impossible: an index server ",
        ),
    ],
)
def test_a_key_that_does_not_fit_its_place_is_named(wrong: Publisher, key: str, why: str) -> None:
    name, said = wrong.problem
    assert name == key
    assert said.startswith(why)
    assert said


def test_the_tags_of_releases_name_their_package_and_branch() -> None:
    release = made(RELEASE, tag="{package}/{branch}-v{version}")
    assert release.tags("torch", "main") == "torch/main-v{version}"
    assert made(INDEX, url="/srv").tags("torch", "main") == ""


@pytest.mark.parametrize(
    ("place", "bucket", "login", "whole"),
    [
        (made(INDEX, url="s3://x"), True, True, False),
        (made(INDEX, url="/srv", whole=True), False, False, True),
        (made(REGISTRY, url="https://h/a"), False, True, False),
        (made(RELEASE), False, False, True),
        (made(TRUSTED, url=SIMPLE, index=SIMPLE), False, False, False),
    ],
)
def test_what_follows_from_a_place(place: Publisher, *, bucket: bool, login: bool, whole: bool) -> None:
    assert (place.is_bucket, place.takes_login, place.is_whole) == (bucket, login, whole)


@pytest.mark.parametrize(
    ("keys", "days", "upload_days"),
    [({"nights": "40d"}, 40, 40), ({"most": 3}, 0, 40), ({"nights": "7d", "uploads": "365d"}, 7, 365)],
)
def test_days_of_retention(keys: dict[str, Any], days: int, upload_days: int) -> None:
    retention = made(RELEASE, retention=keys).retention
    assert retention is not None
    assert (retention.days, retention.upload_days) == (days, upload_days)
