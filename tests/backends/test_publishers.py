"""Ready publishers in jobs: a whole release that waits for its variants, a night, and what the workflow may do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.backends.nar import closure_digest
from ci_compiler.errors import InputError
from ci_compiler.github.reliance import reliance
from ci_compiler.plan.pipeline import plan
from ci_compiler.publishing.plan import UPLOAD_DAYS
from ci_compiler.publishing.wheel_index import files_of
from ci_compiler.runner.doctor.diagnosis import work_of
from ci_compiler.runner.doctor.evidence import ClockReading, Evidence
from ci_compiler.runner.doctor.host_checks import token
from ci_compiler.runner.jobs.publishers import target_of
from ci_compiler.secret import Secret
from ci_compiler.stages import PUBLISH
from ci_compiler.sync.compiled import compile_files
from tests.backends import wheel
from tests.backends.project import MANIFEST, Project
from tests.backends.wheel import NAME
from tests.invariants import parsed, problems
from tests.runner.machines import known
from tests.specs import spec_of


def test_a_release_is_held_back_until_each_variant_passed(built: Project) -> None:
    place = {"to": "wheel-index", "url": str(built.index), "whole": True}
    built.declare(publish=place, files=["dist/*"])  # so that the builds name their wheels apart
    waits = built.publish().stdout
    other = NAME.replace("avx2", "avx")
    assert f"uploaded, and held back until the release is whole: {other} did not pass and get there yet" in waits
    assert not (built.index / "fastpath/index.html").exists()
    path = built.root / MANIFEST
    [wheel_file] = (built.root / MANIFEST).parent.glob("files/*.whl")
    own = wheel_file.rename(wheel_file.with_name(wheel_file.name.replace("-py3", "-1-py3")))
    text = json.dumps(built.manifest | {"name": other}).replace(wheel_file.name, own.name)
    path.write_text(text, "utf-8")
    content = closure_digest(json.loads(text)["closure"])
    options = ("--branch", "main", "--commit", built.manifest["commit"], "--manifest", MANIFEST)
    record = json.loads((built.root / "tested/result.json").read_text("utf-8"))
    (built.root / "tested/result.json").write_text(json.dumps(record | {"name": other, "content": content}), "utf-8")
    assert (
        built.job("publish", other, *options).stdout.splitlines()[-1].startswith(f"{other}: {wheel.VERSION} from main")
    )
    shown = files_of((built.index / "fastpath/index.json").read_bytes())
    assert {(file.variant, file.version, file.yanked) for file in shown} == {
        (name, wheel.VERSION, "") for name in (NAME, other)
    }
    taken = built.job("withdraw", "fastpath", wheel.VERSION, "--because", "wrong results").stdout
    assert taken == "".join(f"{name} {wheel.VERSION}: withdrawn\n" for name in sorted((NAME, other)))
    assert 'data-yanked="wrong results"' in (built.index / "fastpath/index.html").read_text("utf-8")
    assert "nowhere that it is" in built.job("withdraw", "fastpath", "9", "--because", "x", status=2).stderr


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_bill_of_materials_is_not_written_through_what_an_artifact_brought(built: Project, kind: str) -> None:
    kept, brought = built.root.parent / "kept", built.root / "build-output/sbom.cdx.json"
    brought.unlink()
    if kind == "link":
        brought.symlink_to(kept)
    else:
        os.mkfifo(brought)
    assert "from main at" in built.publish().stdout
    assert not kept.exists()
    assert json.loads(brought.read_text("utf-8"))["bomFormat"] == "CycloneDX"


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
        ({"to": "wheel-index", "url": "/srv/wheels", "secrets": ["WHEELS_KEY"]}, "wheel-index takes no secret here"),
        ({"to": "wheel-index", "url": "s3://wheels", "secrets": []}, "the key of a bucket is one secret, ID:SECRET"),
        ({"to": "wheel-index", "url": "s3://wheels", "secrets": ["KEY"]}, "is not the name of a secret"),
        (
            {"to": "wheel-index", "url": "s3://wheels", "env": {"PART_KEY": "x"}, "secrets": ["PART_KEY"]},
            "another name",
        ),
        ({"to": "registry", "url": "https://r.example.org/"}, "the path of the repository in it"),
        ({"to": "registry", "url": "https://r.example.org/x", "image-tags": ["latest"]}, "the first has {version}"),
        ({"to": "registry", "url": "https://r.example.org/x", "image-tags": ["{version}", "@no@"]}, "@no@"),
        ({"to": "wheel-index", "url": "/srv/wheels", "image-tags": ["x-{version}"]}, "is only for `registry`"),
        (
            {"to": "registry", "url": "https://r.example.org/x", "secrets": ["KEY_A", "KEY_B", "KEY_C"]},
            "USER:PASSWORD, or two",
        ),
        ({"to": "wheel-index", "url": "/srv/@cuda@", "whole": True}, "differs between variants"),
        ({"to": "wheel-index", "url": "/srv/wheels", "retention": {"nights": "14d"}}, "version: {night: …}"),
    ],
)
def test_keys_that_do_not_fit_are_refused(publish: dict[str, Any], message: str) -> None:
    beside = {name: publish.pop(name) for name in ("secrets", "env") if name in publish}
    with pytest.raises(InputError) as raised:
        spec_of(wheel.spec(publish=publish, **beside))
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
    files = compile_files(plan(spec_of(wheel.spec(publish=publish, files=["dist/*"]))))
    [text] = [text for name, text in files.items() if name.endswith("shard-publish.yml")]
    assert (f"    permissions:\n      {rights}    env" in text) is bool(rights)
    assert ("RELEASE_TOKEN: ${{ github.token }}" in text) is variables
    [caller] = [text for name, text in files.items() if "build-main" in name]
    called = caller[caller.index("\n  publish-") :]
    assert (f"    permissions:\n      {rights}    with" in called) is bool(rights)
    assert text.count("RELEASE_TOKEN") == variables


@pytest.mark.parametrize("names", [["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"], []])
def test_the_jobs_get_exactly_the_secrets_that_are_named(names: list[str]) -> None:
    place = {"to": "wheel-index", "url": "s3://wheels"} if names else {"to": "github-release"}
    spec = spec_of(wheel.spec(publish=place, secrets=names, files=["dist/*"]))
    decided = plan(spec)
    assert reliance(decided).environments["release"].secrets == {*names}, "which `settings` asks for"
    files = compile_files(decided)
    texts = {name.rpartition("/")[2]: text for name, text in files.items() if name.endswith(".yml")}
    assert "secrets" not in problems(parsed(decided, files))
    called = [yaml.safe_load(texts[f"shard-{part}.yml"]) for part in ("preflight", "publish")]
    assert [[*(one[True]["workflow_call"].get("secrets") or ())] for one in called] == [names, names]
    assert ("environment" in called[0]["jobs"]["preflight"]) is bool(names)
    said = token(
        work_of(spec, stage=PUBLISH), Evidence(machine=known("h200"), clock=ClockReading(now=0), lacks=tuple(names[1:]))
    )
    if names:
        fix = "put it into the secret AWS_SECRET_ACCESS_KEY of GitHub's environment release"
        assert (said.failed, said.message, said.fix) == (True, "AWS_SECRET_ACCESS_KEY is not set", fix)
    else:
        assert said.message == "the spec says that publishing needs no secret"


def test_a_bucket_takes_its_key_in_one_secret_or_two() -> None:
    place = {"to": "wheel-index", "url": "s3://wheels", "retention": {"uploads": "60d"}}
    for names, texts in ((["WHEELS_KEY"], ["id:hush"]), (["KEY_ID", "KEY_SECRET"], ["id", "hush"])):
        command = spec_of(wheel.spec(publish=place, secrets=names)).packages["fastpath"].command
        assert command
        given = {name: Secret(text) for name, text in zip(names, texts, strict=True)}
        target_of(command, {"package": "fastpath"}, given, Path())
        del given[names[-1]]
        with pytest.raises(InputError, match=f"{' and '.join(names)}: must be set to the key of the bucket"):
            target_of(command, {"package": "fastpath"}, given, Path())


def test_an_upload_is_kept_for_longer_than_any_run_takes() -> None:
    """The form of the key and the number that publishing counts with are the same."""
    for days, is_kept in ((UPLOAD_DAYS - 1, False), (UPLOAD_DAYS, True), (UPLOAD_DAYS + 64, True), (4000, True)):
        document = wheel.spec(publish={"to": "wheel-index", "url": "/srv/x", "retention": {"uploads": f"{days}d"}})
        try:
            spec_of(document)
        except InputError:
            assert not is_kept
        else:
            assert is_kept
