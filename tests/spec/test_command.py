"""Commands of a package: the keys that the published schema has, the secrets that publishing needs, and their rows."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.spec.command import Command, ContainerRow, VersionRule
from ci_compiler.spec.publishers import Publisher
from ci_compiler.spec.read import read
from tests.spec.published import assert_published

IMAGE = f"quay.io/a/b@sha256:{'0' * 64}"
BUCKET = {"to": "wheel-index", "url": "s3://wheels"}


def test_the_schema_has_these_keys() -> None:
    assert_published(Command, ContainerRow, VersionRule)


def command(**keys: Any) -> Command:
    row = {"build": "b.sh", "files": ["a"], "install": "i", "publish": "p"}
    found: Command = read(Command, row | {name.replace("_", "-"): value for name, value in keys.items()})
    return found


def test_what_is_left_out_is_off() -> None:
    plain = command()
    assert (plain.secrets, plain.version, list(plain.rows)) == (("PUBLISH_TOKEN",), None, [])


@pytest.mark.parametrize(
    ("publish", "publisher", "whole"),
    [
        ("twine upload", None, False),
        (BUCKET, Publisher(to="wheel-index", url="s3://wheels"), False),
        (BUCKET | {"whole": True}, Publisher(to="wheel-index", url="s3://wheels", whole=True), True),
        ({"to": "github-release"}, Publisher(to="github-release"), True),
    ],
)
def test_a_command_or_a_ready_publisher_publishes(publish: Any, publisher: Publisher | None, *, whole: bool) -> None:
    made = command(publish=publish)
    assert (made.publisher, made.is_whole, made.publish) == (publisher, whole, publisher or publish)


@pytest.mark.parametrize(
    ("publish", "secrets", "required"),
    [
        ("p", {}, ()),
        ("p", {"secrets": ["PUBLISH_TOKEN"]}, ()),
        ("p", {"secrets": ["A_KEY"]}, ("A_KEY",)),
        ("p", {"secrets": ["PUBLISH_TOKEN", "A_KEY"]}, ("PUBLISH_TOKEN", "A_KEY")),
        ("p", {"secrets": []}, ()),
        (BUCKET, {}, ("PUBLISH_TOKEN",)),
        ({"to": "github-release"}, {}, ()),
    ],
)
def test_secrets_with_names_of_their_own_and_logins_are_required(
    publish: Any, secrets: dict[str, Any], required: tuple[str, ...]
) -> None:
    assert command(publish=publish, **secrets).required_secrets == required


def test_rows_that_depend_on_the_cell_have_their_paths() -> None:
    made = command(
        env={"A": "x", "B": [{"value": "y", "when": {"python": "3.13"}}, {"value": "z"}]},
        container=[{"value": IMAGE, "when": {"isa": "avx2"}}, {"value": IMAGE}],
        version={"local": "@isa@"},
    )
    assert [(path, row.value, str(row.when or "")) for path, row in made.rows] == [
        (("env", "A", 0), "x", ""),
        (("env", "B", 0), "y", "python 3.13"),
        (("env", "B", 1), "z", ""),
        (("container", 0), IMAGE, "isa avx2"),
        (("container", 1), IMAGE, ""),
        (("version", "local", 0), "@isa@", ""),
    ]
    assert [path for path, _ in command(container=IMAGE, version={"tag": "v{version}"}).rows] == [("container", 0)]
