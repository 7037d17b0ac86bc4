"""Ready publishers in jobs: a whole release that waits for its variants, a night, and what the workflow may do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.plan.pipeline import plan
from ci_compiler.publishing.pages import files_of
from ci_compiler.sync.compiled import compile_files
from tests.backends import wheel
from tests.backends.project import MANIFEST, Project
from tests.backends.wheel import NAME
from tests.specs import spec_of


def test_a_release_is_held_back_until_each_variant_passed(built: Project) -> None:
    place = {"to": "wheel-index", "url": str(built.index), "whole": True}
    built.declare(publish=place)
    waits = built.publish().stdout
    other = NAME.replace("avx2", "avx")
    assert f"uploaded, and held back until the release is whole: {other} did not pass and get there yet" in waits
    assert not (built.index / "fastpath/index.html").exists()
    path = built.root / MANIFEST
    path.write_text(json.dumps(built.manifest | {"name": other}), "utf-8")
    options = ("--branch", "main", "--commit", built.manifest["commit"], "--manifest", MANIFEST)
    record = json.loads((built.root / "tested/result.json").read_text("utf-8"))
    (built.root / "tested/result.json").write_text(json.dumps(record | {"name": other}), "utf-8")
    assert (
        built.job("publish", other, *options).stdout.splitlines()[-1].startswith(f"{other}: {wheel.VERSION} from main")
    )
    [file] = files_of((built.index / "fastpath/index.json").read_bytes())
    assert (file.version, file.yanked) == (wheel.VERSION, "")
    taken = built.job("withdraw", "fastpath", wheel.VERSION, "--because", "wrong results").stdout
    assert taken == f"{other} {wheel.VERSION}: withdrawn\n"
    assert 'data-yanked="wrong results"' in (built.index / "fastpath/index.html").read_text("utf-8")
    assert "nowhere that it is" in built.job("withdraw", "fastpath", "9", "--because", "x", status=2).stderr


@pytest.mark.parametrize(
    ("publish", "message"),
    [
        ({"to": "wheel-index", "url": "https://wheels.example.org"}, "must be an absolute folder or s3://BUCKET"),
        ({"to": "github-release", "url": "/srv/wheels"}, "is not needed"),
        ({"to": "trusted-publishing", "url": "https://i.example.org/upload"}, "`index` is what"),
        ({"to": "wheel-index", "url": "/srv/wheels", "endpoint": "https://s3.example.org"}, "only for a bucket"),
        ({"to": "wheel-index", "url": "/srv/@unknown@"}, "@unknown@"),
        ({"to": "wheel-index", "url": "/srv/wheels", "tag": "x-{version}"}, "only for `github-release`"),
        ({"to": "github-release", "tag": "{name}-{version}"}, "is not a text with {version}"),
        ({"to": "wheel-index", "url": "/srv/@cuda@", "whole": True}, "differs between variants"),
        ({"to": "wheel-index", "url": "/srv/wheels", "retention": {"nights": "14d"}}, "version: {night: …}"),
    ],
)
def test_keys_that_do_not_fit_are_refused(publish: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        spec_of(wheel.spec(publish=publish))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("publish", "rights", "variables"),
    [
        ({"to": "wheel-index", "url": "s3://wheels"}, "", False),
        ({"to": "github-release"}, "contents: write # the release\n", True),
        (
            {"to": "trusted-publishing", "url": "https://i.example.org/up", "index": "https://i.example.org/simple"},
            "contents: read\n      id-token: write # proves to the index where it comes from\n",
            False,
        ),
    ],
)
def test_the_job_may_do_what_its_place_needs(publish: dict[str, Any], rights: str, variables: bool) -> None:
    files = compile_files(plan(spec_of(wheel.spec(publish=publish))))
    [text] = [text for name, text in files.items() if name.endswith("shard-publish.yml")]
    assert (f"    permissions:\n      {rights}    env" in text) is bool(rights)
    assert ("RELEASE_TOKEN: ${{ github.token }}" in text) is variables
    [caller] = [text for name, text in files.items() if "build-main" in name]
    called = caller[caller.index("\n  publish-") :]
    assert (f"    permissions:\n      {rights}    with" in called) is bool(rights)
    assert text.count("RELEASE_TOKEN") == variables
