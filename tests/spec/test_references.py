"""A spec names only what is declared or known; more in `examples/wrong`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.program import Program
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.errors import InputError
from tests.checkers import require
from tests.specs import (
    MAIN,
    MATRIX,
    SOURCE,
    Said,
    assert_said,
    branches,
    builder,
    errors_in,
    excluding,
    matrix,
    small,
    spec_of,
)

REPOSITORY = {"name": "o/r", "rev": {"mian": "1" * 40}, "hash": {"other": "sha256-" + "A" * 43 + "="}}

UNKNOWN_BRANCH = "unknown branch 'mian'; did you mean main?"
WRONG: dict[str, tuple[dict[str, Any], list[Said]]] = {
    "a work-around": (
        branches(**{"work-arounds": ["torch-cccl", "no-such"]}),
        [("unknown-work-around", "unknown work-around 'no-such'; known are magma", '"no-such"]')],
    ),
    "a source's package": (
        branches(sources={"torch": SOURCE}),
        [("unknown-package", "unknown package 'torch'; did you mean pytorch", '"torch": {"repo')],
    ),
    "a pname's package": (
        branches(pnames={"torch": "x"}),
        [("unknown-package", "unknown package 'torch'; did you mean pytorch", '"torch": "x"')],
    ),
    "a package's branch": (
        {"packages": {"pytorch": {"branches": ["main", "mian"]}, "torchvision": {}}},
        [("unknown-branch", UNKNOWN_BRANCH, '"mian"]}')],
    ),
    "a package's need, which hides no circle": (
        {"packages": {"pytorch": {"needs": ["torchvision", "nothing"]}, "torchvision": {"needs": ["pytorch"]}}},
        [("unknown-package", "unknown package 'nothing'; known are pytorch, torchvision", '"nothing"]')],
    ),
    "a repository's branches": (
        {"packages": {"pytorch": {"repository": REPOSITORY}, "torchvision": {"needs": ["pytorch"]}}},
        [
            ("unknown-branch", UNKNOWN_BRANCH, '"rev": {"mian"'),
            ("missing-rev", "no rev for branch main", '{"mian": "111'),
            ("unknown-branch", "unknown branch 'other'", '"hash": {"other"'),
            ("missing-hash", "no hash for branch main", '{"other": "sha256-'),
        ],
    ),
    "a repository's package of no branch here": (
        {"packages": {"pytorch": {"repository": REPOSITORY, "branches": ["mian"]}, "torchvision": {}}},
        [
            ("unknown-branch", UNKNOWN_BRANCH, '"mian"]'),
            ("unknown-branch", UNKNOWN_BRANCH, '"rev": {"mian"'),
            ("unknown-branch", "unknown branch 'other'", '"hash": {"other"'),
        ],
    ),
    "an axis' ISA": (
        matrix(gpus={"cpu": {"isas": ["avx2", "avx3"]}}),
        [("unknown-isa", "unknown ISA 'avx3'; did you mean avx", '"avx3"]')],
    ),
    "an axis' branch": (
        matrix(gpus={"cpu": {"branches": ["mian"]}}),
        [("unknown-branch", UNKNOWN_BRANCH, '"mian"]')],
    ),
    "a branch and an ISA of also": (
        matrix(gpus={"cpu": {"also": {"mian": ["avx", "avx3"]}}}),
        [("unknown-branch", UNKNOWN_BRANCH, '"mian": ['), ("unknown-isa", "unknown ISA 'avx3'", '"avx3"]')],
    ),
    "a branch of also that its axis does not have either": (
        matrix(gpus={"cpu": {"branches": ["main"], "also": {"mian": ["avx"]}}}),
        [("unknown-branch", UNKNOWN_BRANCH, '"mian": [')],
    ),
    "an exclusion's branch": (
        excluding({"variants": "*", "branches": ["main", "mian"]}),
        [("unknown-branch", UNKNOWN_BRANCH, '"mian"]')],
    ),
    "a system and ISAs of another": (
        matrix(isas={"x86_64-linux": ["avx2", "avx3", "armv9"], "x": ["avx2"]}),
        [
            ("unknown-isa", "unknown ISA 'avx3'", '"avx3", '),
            ("isa-system", "armv9 is an ISA of aarch64-linux, not of x86_64-linux", '"armv9"]'),
            (
                "unknown-system",
                "unknown system 'x'; known are aarch64-darwin, aarch64-linux, x86_64-linux",
                '"x": ["avx2"]',
            ),
        ],
    ),
    "a pool's system": (
        builder(system="x86"),
        [("unknown-system", "unknown system 'x86'; known are aarch64-darwin, aarch64-linux, x86_64-linux", '"x86"}')],
    ),
    "a pool's ISAs": (
        builder(cpu=["avx2", "armv9", "avx3"]),
        [
            ("isa-system", "armv9 is an ISA of aarch64-linux, not of x86_64-linux", '"armv9", '),
            ("unknown-isa", "unknown ISA 'avx3'", '"avx3"]'),
        ],
    ),
    "publishing after a test that never runs": (
        {"publish": {"after": ["cpu-test", "gpu-test"]}, "tests": {"gpu-test": "never"}},
        [("test-never-runs", "publishing waits for gpu-test, which `tests` switches off", '"gpu-test"]')],
    ),
    "names that differ in a slash": (
        {"branches": {"release/1": MAIN, "release-1": MAIN}},
        [
            (
                "duplicate-name",
                "the branches 'release-1' and 'release/1' cannot be told apart in file names",
                '"release-1": {',
            )
        ],
    ),
}


COMMAND: dict[str, Any] = {"build": "b.sh", "files": ["a"], "install": "b", "publish": "c"}
NO_VERSION = (
    "branch main gives no version of {}; add `versions: {{{}: VERSION}}`, or name the branches that build it in the "
    "package's `branches`"
)
NO_COMMIT = "main names no nixpkgs commit, which the recipes of pytorch need; add `nixpkgs: COMMIT`"
TO_DECLARE = 'To declare it: hardware: {toolkits: {"12.99"'


def versions(**given: str) -> dict[str, Any]:
    return branches(versions=given)


def unpinned(**changes: Any) -> dict[str, Any]:
    return {"branches": {"main": {key: MAIN[key] for key in ("versions", "cuda")} | changes}}


def packages(**rows: dict[str, Any]) -> dict[str, Any]:
    """Packages of which each has a version."""
    return {"packages": rows} | versions(**dict.fromkeys(rows, "1.0"))


def commands(branch: Any = (), **rows: dict[str, Any]) -> dict[str, Any]:
    """Packages that commands build, with keys of each `command` changed, on a branch or on several."""
    made = packages(**{name: {"command": COMMAND | row} for name, row in rows.items()}) | {"backend": "command"}
    return made | {"branches": branch} if branch else made


def publishing(*, secrets: Any = (), version: Any = None, **to: Any) -> dict[str, Any]:
    rule = {"version": version} if version else {}
    return commands(pytorch={"publish": to} | rule | ({"secrets": secrets} if secrets != () else {}))


def pool(**changes: Any) -> dict[str, Any]:
    own = {"runs-on": ["linux", "x64", "further"]} | changes
    return {"runners": small()["runners"] | {"further": own}}


def releases(*, tag: str, **rows: list[str]) -> dict[str, Any]:
    """Packages with their versions on two branches, each published as a release on GitHub."""
    published = {"publish": {"to": "github-release", "tag": tag}, "secrets": []}
    names = {
        f"b{at}": {"cuda": "12.8", "versions": {name: row[at] for name, row in rows.items() if row[at]}}
        for at in (0, 1)
    }
    return commands(
        names,
        **{name: published | ({} if all(row) else {"version": {"tag": "{version}"}}) for name, row in rows.items()},
    )


def shared(first: str, second: str, tag: str, apart: str) -> list[Said]:
    message = f"{first} and {second} would be one release, {tag}; give each a tag of its own, such as `tag: "
    return [("tag-shared", f'{message}"{{{apart}}}-v{{version}}"`', '{"to"')]


BUCKET = {"to": "wheel-index", "url": "s3://wheels"}
NIGHTS = {"retention": {"nights": "14d"}}
ONLY_NIGHTS = "only nights end: declare the pattern of their versions, `version: {night: …}`"
BUCKET_KEY = "the key of a bucket is one secret, ID:SECRET, or two: its id and its secret"
LOGIN = "the login of a registry is one secret, USER:PASSWORD, or two: the user and the password"
IMAGES = {"to": "registry", "url": "https://ghcr.io/o/r"}
KEY = "store-1:0f8Hk9JvJ9bGmYVvHyuZQ6lZkkYHkS7pq2LZ4wWrbSg="
NO_SYSTEM = "no label of further says x64 or arm64; add one, or give its `system: x86_64-linux`"
CIRCLE = "pytorch needs torchvision, which needs pytorch; one of them must not need the next"
AS_ARTIFACTS = "which travel as artifacts; remove it (a build script may keep a cache of its own)"
UNUSED = "pytorch: `command` has no effect here; remove it, or set `backend: command`"

MORE: dict[str, tuple[dict[str, Any], list[Said]]] = {
    # Branches.
    "nothing wrong": ({}, []),
    "a version of an unknown package": (
        versions(pytorch="1", torchvision="1", other="1"),
        [("unknown-package", "unknown package 'other'; known are pytorch, torchvision", '"other": "1"')],
    ),
    "a package without a version": (
        versions(pytorch="1"),
        [("missing-version", NO_VERSION.format("torchvision", "torchvision"), '"versions"')],
    ),
    "packages without versions": (
        {"packages": {"a": {"recipes": "template", "template": "t.nix"}, "b": {}}} | versions(),
        [("missing-version", NO_VERSION.format("a and b", "a: VERSION, b"), '"versions"')],
    ),
    "a package with a misspelled version": (
        versions(pytorch="1", torchvison="1"),
        [("unknown-package", "unknown package 'torchvison'; did you mean torchvision?", '"torchvison"')],
    ),
    "packages that need no version": (
        {"packages": {"pytorch": {}, "a": {"recipes": "own"}, "b": {"system": "x86_64-linux"}}} | versions(pytorch="1"),
        [],
    ),
    "a package that the branch does not have": (
        {"packages": {"pytorch": {}, "other": {"branches": ["next"]}}}
        | {
            "branches": {
                "main": MAIN | {"versions": {"pytorch": "1"}},
                "next": MAIN | {"versions": dict.fromkeys(["pytorch", "other"], "1")},
            }
        },
        [],
    ),
    "a toolkit": (branches(cuda="12.99"), [("unknown-toolkit", TO_DECLARE, '"12.99"')]),
    "a toolkit of a list": (branches(cuda=["12.8", "12.99"]), [("unknown-toolkit", TO_DECLARE, '"12.99"]')]),
    "a toolkit of a mapping": (
        branches(cuda={"12.8": {}, "12.99": {}}),
        [("unknown-toolkit", TO_DECLARE, '"12.99": {}')],
    ),
    "no commit of nixpkgs": (unpinned(), [("missing-key", NO_COMMIT, '"cuda"')]),
    "no commit of nixpkgs for a toolkit": (
        unpinned(cuda={"12.8": {"nixpkgs": MAIN["nixpkgs"]}, "12.9": {}}),
        [("missing-key", NO_COMMIT, '"12.9"')],
    ),
    "no commit of nixpkgs for CPUs": (
        {"branches": {"main": {"versions": MAIN["versions"]}}} | matrix(gpus={"cpu": {}}) | builder(),
        [("missing-key", NO_COMMIT, '"main"')],
    ),
    "no commit of nixpkgs where no recipe is compiled": (
        unpinned() | {"packages": {"pytorch": {"recipes": "own"}, "torchvision": {"repository": {"name": "o/r"}}}},
        [],
    ),
    "a work-around of a toolkit": (
        branches(cuda={"12.8": {"work-arounds": ["torch-cccl", "no-such"]}}),
        [("unknown-work-around", "unknown work-around 'no-such'", '["torch-cccl"')],
    ),
    "work-arounds of the spec": (
        branches(**{"work-arounds": ["mine"]}) | {"work-arounds": {"mine": {"why": "a reason"}}},
        [],
    ),
    "a package of a toolkit's sources": (
        branches(cuda={"12.8": {"sources": {"torch": SOURCE}}}),
        [("unknown-package", "unknown package 'torch'; did you mean pytorch", '"12.8": {"sources"')],
    ),
    # Packages.
    "a circle": (
        packages(pytorch={"needs": ["torchvision"]}, torchvision={"needs": ["pytorch"]}),
        [("needs-circle", CIRCLE, '"needs": ["torchvision"]')],
    ),
    "a circle of what is gathered": (
        packages(pytorch={"gathers": ["torchvision"]}, torchvision={"needs": ["pytorch"]}),
        [("needs-circle", CIRCLE, '"gathers"')],
    ),
    "an unknown package that is gathered": (
        packages(pytorch={"gathers": ["nothing"]}, torchvision={}),
        [("unknown-package", "unknown package 'nothing'", '"nothing"]')],
    ),
    # Commands.
    "commands": (commands(pytorch={}), []),
    "a command beside recipes": (
        packages(pytorch={"command": COMMAND}),
        [("command-unused", UNUSED, '"command"')],
    ),
    "no command": (
        packages(pytorch={}) | {"backend": "command"},
        [
            (
                "command-missing",
                "pytorch declares no `command`, which the backend command builds and publishes by",
                '"pytorch"',
            )
        ],
    ),
    "a version that a command says as well": (
        commands(pytorch={"version": {"command": "v"}}),
        [
            (
                "version-unknown",
                "pytorch has its version from command and from `versions` of main; keep one",
                '"version"',
            )
        ],
    ),
    "a version that a command and a tag say": (
        commands({"main": {"cuda": "12.8"}}, pytorch={"version": {"command": "v", "tag": "v{version}"}}),
        [("version-unknown", "pytorch has its version from command and from tag; keep one", '"version"')],
    ),
    "a version that a tag says": (
        commands({"main": {"cuda": "12.8"}}, pytorch={"version": {"tag": "v{version}"}}),
        [],
    ),
    "a version with a local part": (commands(pytorch={"version": {"local": "@isa@"}}), []),
    "a placeholder in how to install": (
        commands(pytorch={"install": "pip install a==@versoin@"}),
        [("unknown-placeholder", "unknown placeholder @versoin@; did you mean version?", '"pip install')],
    ),
    "a placeholder in a variable": (
        commands(pytorch={"env": {"A": "@gpu@", "B": [{"value": "@thing@"}]}}),
        [("unknown-placeholder", "unknown placeholder @thing@", '"@thing@"}')],
    ),
    # Publishers.
    "a bucket": (publishing(secrets=["A_ID", "A_KEY"], version={"night": "{version}.{date}"}, **BUCKET, **NIGHTS), []),
    "nights without a pattern": (
        publishing(secrets=["A_KEY"], **BUCKET, **NIGHTS),
        [("wrong-value", ONLY_NIGHTS, '"retention"')],
    ),
    "nights with another rule": (
        publishing(secrets=["A_KEY"], version={"local": "x"}, **BUCKET, retention={"most": 3}),
        [("wrong-value", ONLY_NIGHTS, '"retention"')],
    ),
    "uploads without nights": (publishing(secrets=["A_KEY"], **BUCKET, retention={"uploads": "50d"}), []),
    "a key that the kind of place has not": (
        publishing(secrets=["A_KEY"], **BUCKET, index="https://x/simple"),
        [("wrong-value", "wheel-index: `index` is what", '"https://x/simple"')],
    ),
    "a key that the kind of place lacks": (
        publishing(secrets=[], to="wheel-index"),
        [("wrong-value", "wheel-index: `url` must be an absolute folder or s3://BUCKET/PREFIX", '{"to"')],
    ),
    "a placeholder in an address and a tag": (
        publishing(
            secrets=["A_LOGIN"], to="registry", url="https://h/@thing@", **{"image-tags": ["{version}", "@other@"]}
        ),
        [
            ("unknown-placeholder", "unknown placeholder @thing@", '"https://h/@thing@"'),
            ("unknown-placeholder", "unknown placeholder @other@", '"@other@"]'),
        ],
    ),
    "three secrets of a bucket": (
        publishing(secrets=["A_A", "B_B", "C_C"], **BUCKET),
        [("wrong-value", BUCKET_KEY, '["A_A"')],
    ),
    "no secret of a bucket": (publishing(secrets=[], **BUCKET), [("wrong-value", BUCKET_KEY, "[]")]),
    "three secrets of a registry": (
        publishing(secrets=["A_A", "B_B", "C_C"], **IMAGES),
        [("wrong-value", LOGIN, '["A_A"')],
    ),
    "secrets of a registry": (publishing(secrets=["A_A", "B_B"], **IMAGES), []),
    "no secret of a registry": (publishing(secrets=[], **IMAGES), []),
    "a secret of a release": (
        publishing(secrets=["A_KEY"], to="github-release"),
        [("wrong-value", "github-release takes no secret here; leave it out", '["A_KEY"]')],
    ),
    "a release": (publishing(to="github-release"), []),
    "secrets of a command": (commands(pytorch={"secrets": ["A_A", "B_B", "C_C"], "env": {"A": "x"}}), []),
    "a variable with the name of a secret": (
        commands(pytorch={"secrets": ["A_A", "B_B"], "env": {"B_B": "x", "C": "y"}}),
        [
            (
                "wrong-value",
                "B_B is one of `secrets`, which no other command gets; give the variable another name",
                '"B_B": "x"',
            )
        ],
    ),
    # Axes.
    "a branch without a Python": (
        {"matrix": {key: MATRIX[key] for key in ("isas", "gpus")}},
        [("missing-python", "no Python version for branch main; add `python` here or to the branch", '"matrix"')],
    ),
    "a branch with a Python": (
        {"matrix": {key: MATRIX[key] for key in ("isas", "gpus")}} | branches(python=["3.13"]),
        [],
    ),
    "a GPU": (
        matrix(gpus={"cpu": {}, "sm91": {}}),
        [("unknown-gpu", "unknown GPU 'sm91'; did you mean sm90 or", '"sm91"')],
    ),
    "a toolkit of a GPU": (
        matrix(gpus={"sm90": {"cuda": ["12.8", "12.9"]}}),
        [("unknown-toolkit", "no branch builds with CUDA 12.9; did you mean 12.8?", '"12.9"]')],
    ),
    "a branch of also that its axis does not have": (
        {"branches": {"main": MAIN, "next": MAIN}}
        | matrix(gpus={"sm90": {"branches": ["main"], "also": {"main": ["avx"], "next": ["avx"]}}}),
        [("unused-also", "sm90 is not built on next, so `also` adds nothing there", '"next": ["avx"]')],
    ),
    "ISAs of another system": (
        matrix(isas={"x86_64-linux": ["armv9", "avx2", "armv8_2"]}),
        [("isa-system", "armv9 is an ISA of aarch64-linux, not of x86_64-linux", '"armv9"')],
    ),
    "a plausible system": (
        matrix(isas={"x86_64": ["avx2"]}),
        [("unknown-system", "'x86_64' is not a Nix system; write x86_64-linux", '"x86_64"')],
    ),
    # Patterns and listed variants.
    "a pattern of an exclusion": (
        excluding({"variants": "pytorch-{a,b"}),
        [("wrong-pattern", "'pytorch-{a,b' opens a brace that it never closes", '"pytorch-{a,b"')],
    ),
    "a pattern of recipes": (
        packages(pytorch={"recipes": {"*": "own", "a{": "own"}}),
        [("wrong-pattern", "'a{' opens a brace that it never closes", '"a{"')],
    ),
    "listed variants": (
        packages(pytorch={}, other={"variants": {"x": {"system": "s390x", "pool": "buildr", "branches": ["mian"]}}}),
        [
            ("unknown-branch", UNKNOWN_BRANCH, '"mian"]'),
            ("unknown-system", "unknown system 's390x'; known are", '"s390x"'),
            ("unknown-pool", "unknown pool 'buildr'; did you mean builder?", '"buildr"'),
        ],
    ),
    "a package's system": (
        packages(pytorch={}, other={"system": "x86_64-linx"}),
        [("unknown-system", "unknown system 'x86_64-linx'; did you mean x86_64-linux", '"x86_64-linx"')],
    ),
    # Pools.
    "GPUs of a pool without any": (
        pool(gpus=2),
        [("missing-gpu", "further has 2 GPUs but names no `gpu`", "2}")],
    ),
    "GPUs of a pool": (pool(gpus=2, gpu="sm90"), []),
    "a pool without a system": (pool(**{"runs-on": ["big"]}), [("missing-system", NO_SYSTEM, '"further"')]),
    "a pool's GPU": (pool(gpu="sm91"), [("unknown-gpu", "unknown GPU 'sm91'; did you mean sm90 or", '"sm91"')]),
    "a pool with a GPU of other hosts": (
        pool(gpu="sm121"),
        [("gpu-host", "sm121 does not come with x86_64-linux hosts", '"sm121"')],
    ),
    "a pool that tests GPUs": (
        pool(stages=["build", "gpu-test"]),
        [("missing-gpu", "further runs gpu-test but names no GPU", '["build", "gpu-test"]')],
    ),
    # Caches, publishing and prices.
    "a cache": ({"cache": {"url": "s3://store", "public-key": KEY, "push": "own"}}, []),
    "a cache of files": (
        commands(pytorch={}) | {"cache": {"url": "s3://store", "public-key": KEY}},
        [
            (
                "cache-unused",
                f"`cache` carries closures, and the backend command makes files, {AS_ARTIFACTS}",
                '"cache"',
            )
        ],
    ),
    "a cache that takes no parts": (
        {"cache": {"url": "https://store.example.org", "public-key": KEY, "push": "own"}},
        [("wrong-value", "`push: own` needs a cache at s3:// or file://; any other gets whole closures", '"own"')],
    ),
    "publishing that waits for a test by default": ({"tests": {"gpu-test": "never"}, "publish": {}}, []),
    "a price of a pool": (
        {"prices": {"currency": "EUR", "machine-hour": {"builder": "1", "buildr": "2"}}},
        [("unknown-pool", "unknown pool 'buildr'; did you mean builder?", '"buildr"')],
    ),
    # Names that are alike.
    "packages that differ in case": (
        packages(pytorch={}, PyTorch={}),
        [("duplicate-name", "the packages 'PyTorch' and 'pytorch' cannot be told apart in file names", '"PyTorch": {')],
    ),
    "a package with the name of a device": (
        packages(pytorch={}, Aux={}),
        [("duplicate-name", "'Aux' has the name of a device, which no file or folder has", '"Aux": {')],
    ),
    "a branch with the name of a device": (
        {"branches": {"release/nul.1": MAIN, "nullable": MAIN}},
        [("duplicate-name", "'release/nul.1' has the name of a device", '"release/nul.1": {')],
    ),
    "releases with tags of their own": (releases(tag="{package}-{branch}-v{version}", a=["1", "1"], b=["1", "1"]), []),
    "releases of other versions": (releases(tag="v{version}", a=["1", "2"]), []),
    "releases of two packages": (
        releases(tag="{branch}-v{version}", a=["1", "2"], b=["1", "3"]),
        shared("b on b0", "a on b0", "b0-v1", "package"),
    ),
    "releases of two branches": (
        releases(tag="{package}-v{version}", a=["1", "1"]),
        shared("a on b1", "a on b0", "a-v1", "branch"),
    ),
    "releases whose versions a run decides on": (
        releases(tag="{branch}-v{version}", a=["", ""], b=["1", "1"]),
        shared("b on b0", "a on b0", "b0-v1", "package") + shared("b on b1", "a on b1", "b1-v1", "package"),
    ),
}


@pytest.mark.parametrize("case", MORE)
def test_what_a_spec_names_fits_together(case: str) -> None:
    changes, expected = MORE[case]
    document = small(**changes)
    assert_said(document, errors_in(document), expected)


def test_a_spec_without_any_matrix_names_the_packages_that_lack_one() -> None:
    document = small(packages={"a": {"system": "x86_64-linux"}, "pytorch": {}, "torchvision": {}})
    del document["matrix"]
    message = "no matrix for pytorch and torchvision; add a general `matrix`, or a `matrix`, `system` or `variants` of"
    assert_said(document, errors_in(document), [("missing-matrix", f"{message} its own", '"pytorch"')])


@pytest.mark.parametrize("case", WRONG)
def test_an_unknown_name_is_an_error_where_the_spec_is_built(case: str) -> None:
    changes, expected = WRONG[case]
    document = small(**changes)
    assert_said(document, errors_in(document), expected)


@pytest.mark.parametrize(("product", "architecture"), [("h100", "sm90"), ("RTX-4090", "sm89")])
def test_a_product_in_place_of_an_architecture_is_reported_with_the_right_one(product: str, architecture: str) -> None:
    document = small(**builder(gpu=product))
    message = f"{product!r} is a product; write its architecture, {architecture}"
    assert_said(document, errors_in(document), [("unknown-gpu", message, f'"{product}"')])


@pytest.mark.parametrize(
    ("program", "words"), [(COMPILE, ["variants"]), (RUNNER, ["labels"]), (RUNNER, ["list", "--here"])]
)
def test_every_command_refuses_a_spec_with_an_unknown_name(
    program: Program, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(json.dumps(small(**matrix(gpus={"sm91": {}}))), "utf-8")
    assert run(program, [*words, "--root", str(tmp_path), "--spec", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: spec.yaml:1:")
    assert "unknown GPU 'sm91'; did you mean" in err


@pytest.mark.parametrize("name", ["a.lock/b", "a.lock", "HEAD", "refs/heads/main", "a/.b", "a..b", "-a", "0" * 40])
def test_a_branch_that_git_or_github_refuses_is_an_error(name: str) -> None:
    with pytest.raises(
        InputError, match=r"is not a branch name that git and GitHub accept|is more than the name of a branch"
    ):
        spec_of(small(branches={name: MAIN}))


@pytest.mark.parametrize("name", ["main", "release/1.0", "a.locked/b", "HEAD2", "topic/HEAD", "v1_0-rc.1"])
def test_a_branch_that_git_accepts_is_accepted(name: str) -> None:
    require("git")
    subprocess.run(["git", "check-ref-format", "--branch", name], check=True)
    assert list(spec_of(small(branches={name: MAIN})).branches) == [name]


def test_a_branch_cannot_be_below_another() -> None:
    with pytest.raises(InputError, match="git cannot have the branch 'main/b' beside 'main'"):
        spec_of(small(branches={"main": MAIN, "main/b": MAIN}))
