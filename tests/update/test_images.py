"""Pins of images: digests from a registry, and the compiler's own pins of archives with their checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from ci_compiler.clock import Clock
from ci_compiler.errors import InputError
from ci_compiler.update.registry import digest, image
from ci_compiler.update.release_pins import FILE as PINS
from ci_compiler.update.release_pins import stale_release_pins
from ci_compiler.update.remote import Remote
from ci_compiler.update.web import Bounds
from tests.recipes.test_affected import Repository
from tests.update.conftest import FILE, SPEC
from tests.update.upstreams import Answer, Upstreams, served

MANIFEST = "/v2/o/base/manifests/slim"
OLD, NEW, TOKEN = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}", "a-token"
SUM = {arch: hashlib.sha256(arch.encode()).hexdigest() for arch in ("x64", "arm64", "x86_64", "aarch64")}


@contextmanager
def publishers(pages: Mapping[str, Answer] | None = None) -> Iterator[str]:
    """A registry that wants a token, GitHub's API, and archives; `pages` come first."""

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        realm = f'Bearer realm="http://{headers["Host"]}/token",service="registry",scope="repository:o/base:pull"'
        asks: Answer = (401, {"WWW-Authenticate": realm}, b"")
        is_known = headers.get("Authorization") == f"Bearer {TOKEN}"
        notes = "".join(f"<!-- BEGIN SHA linux-{one} -->{SUM[one]}<!--" for one in ("x64", "arm64"))
        known: dict[str, Answer] = {
            "/token?service=registry&scope=repository%3Ao%2Fbase%3Apull": (200, {}, b'{"token": "a-token"}'),
            MANIFEST: (200, {"Docker-Content-Digest": NEW}, b"") if is_known else asks,
            "/repos/actions/runner/releases/tags/v3.0.0": (200, {}, json.dumps({"body": f"# New\n{notes}"}).encode()),
            **{f"/nix-2.99.0-{arch}.tar.xz.sha256": (200, {}, checksum.encode()) for arch, checksum in SUM.items()},
            **{f"/flox-1.16.0.{arch}.deb": (200, {"Content-Length": str(len(arch))}, arch.encode()) for arch in SUM},
            **(pages or {}),
        }
        return known.get(path, (404, {}, b""))

    with served(answer) as address:
        yield address


def pins(address: str) -> str:
    """A table of pins as the compiler's own, whose publishers are at `address`."""
    rows = {
        "runner": (
            "2.336.0",
            "runner-{machine}-{version}.tar.gz",
            ("x64", "arm64"),
            {"amd64": "a" * 64, "arm64": "b" * 64},
        ),
        "nix": (
            "2.34.7",
            "nix-{version}-{machine}.tar.xz",
            ("x86_64", "aarch64"),
            {"amd64": "c" * 64, "arm64": "d" * 64},
        ),
        "flox": ("1.16.0", "flox-{version}.{machine}.deb", ("x86_64", "aarch64"), {}),
    }
    archives = {
        name: {
            "version": version,
            "url": f"{address}/{url}",
            "machines": dict(zip(("amd64", "arm64"), machines, strict=True)),
            "sha256": sums,
        }
        for name, (version, url, machines, sums) in rows.items()
    }
    base = {"image": f"{address.removeprefix('http://')}/o/base:slim", "digest": OLD}
    table = {"chart": {"version": "0.14.2"}, "base": base, "snapshot": "20261101T000000Z", "archives": archives}
    return json.dumps(table, indent=2).replace('": {\n        "amd64"', '":  {\n        "amd64"')


@pytest.fixture
def programs(actions: Upstreams, monkeypatch: pytest.MonkeyPatch) -> Upstreams:
    """The upstreams with releases of the programs in runner images."""
    actions.git("flox/flox", "tag", "-d", "v9999.0.0")
    for repository, tag in {"actions/runner": "v3.0.0", "NixOS/nix": "2.99.0", "flox/flox": "v1.16.0"}.items():
        actions.tag(repository, tag)
    monkeypatch.setattr(Clock, "now", lambda _: 1_800_000_000.0)
    return actions


@pytest.mark.usefixtures("programs")
def test_a_checkout_of_the_compiler_gets_new_pins_and_nothing_else_of_it_changes(
    fleet: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with publishers() as address:
        monkeypatch.setenv("GITHUB_API_URL", address)
        before = pins(address)
        fleet.write(PINS, before)
        assert fleet.ci("update", "--check") == 1
        listed = capsys.readouterr().out
        for said in ("runner", "2.336.0", "3.0.0", "flox", "has no checksum for amd64 and arm64", "another digest"):
            assert said in listed
        assert fleet.ci("update", "images") == 0
        wanted = json.loads(before)
        wanted["base"]["digest"], wanted["snapshot"] = NEW, "20270115T000000Z"
        for name, version, one, other in (
            ("runner", "3.0.0", "x64", "arm64"),
            ("nix", "2.99.0", "x86_64", "aarch64"),
            ("flox", "1.16.0", "x86_64", "aarch64"),
        ):
            wanted["archives"][name] |= {"version": version, "sha256": {"amd64": SUM[one], "arm64": SUM[other]}}
        after = (fleet.root / PINS).read_text("utf-8")
        assert json.loads(after) == wanted
        changed = [line for line in before.splitlines() if line not in after.splitlines()]
        assert len(changed) == 9
        assert '":  {\n        "amd64"' in after
        assert (fleet.root / FILE).read_text("utf-8") == SPEC
        assert fleet.ci("update", "images") == 0
        assert (fleet.root / PINS).read_text("utf-8") == after


@pytest.mark.usefixtures("programs")
def test_the_image_of_a_pool_goes_to_the_digest_that_its_tag_names(fleet: Repository) -> None:
    with publishers() as address:
        named = f"{address.removeprefix('http://')}/o/base:slim"
        text = SPEC.replace("cpu: [avx2], count: 2", f"cpu: [avx2], image: '{named}@{OLD}', count: 2")
        fleet.write(FILE, text)
        assert fleet.ci("update", "images") == 0
        assert (fleet.root / FILE).read_text("utf-8") == text.replace(OLD, NEW)


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("debian:bookworm-slim", ("docker.io", "library/debian", "bookworm-slim", "")),
        ("my-org/base", ("docker.io", "my-org/base", "latest", "")),
        (f"ghcr.io/o/ci-builder@{OLD}", ("ghcr.io", "o/ci-builder", "", OLD)),
        (f"localhost:5000/a/b:1@{OLD}", ("localhost:5000", "a/b", "1", OLD)),
    ],
)
def test_a_reference_is_read_as_engines_read_it(reference: str, parts: tuple[str, ...]) -> None:
    assert image(reference) == parts


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ({MANIFEST: (404, {}, b"")}, "the registry has no tag slim"),
        ({MANIFEST: (429, {"Retry-After": "60"}, b"")}, "the registry limits requests; try again in 60 s"),
        ({MANIFEST: (500, {}, b"")}, "the registry said 500"),
        ({MANIFEST: (401, {"WWW-Authenticate": "Basic"}, b"")}, "the registry wants a login"),
        ({MANIFEST: (401, {"WWW-Authenticate": 'Bearer realm="file:///etc/passwd"'}, b"")}, "wants a login"),
        ({MANIFEST: (200, {"Docker-Content-Digest": "sha256:no"}, b"")}, "the registry sent 'sha256:no' for a digest"),
        ({MANIFEST: (200, {}, b"x" * 5_000_000)}, "the registry sent more than 4,194,304 bytes"),
    ],
)
def test_a_registry_that_refuses_is_one_clear_line(pages: Mapping[str, Answer], said: str) -> None:
    with publishers(pages) as address, pytest.raises(InputError, match=said) as raised:
        digest(f"{address.removeprefix('http://')}/o/base:slim")
    assert len(raised.value.findings) == 1


def test_a_digest_that_the_registry_does_not_state_is_that_of_the_manifest() -> None:
    with publishers({MANIFEST: (200, {}, b"{}")}) as address:
        found = digest(f"{address.removeprefix('http://')}/o/base:slim")
    assert found == f"sha256:{hashlib.sha256(b'{}').hexdigest()}"


def test_a_download_that_ends_early_or_is_too_large_has_no_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    with publishers({"/a": (200, {"Content-Length": "9"}, b"12345")}) as address, Remote({}) as remote:
        with pytest.raises(InputError, match="the server sent 5 of 9 bytes"):
            remote.checksum(f"{address}/a")
        monkeypatch.setattr("ci_compiler.update.remote.ARCHIVE", Bounds(60.0, 4))
        with pytest.raises(InputError, match="the server sent more than 4 bytes"):
            remote.checksum(f"{address}/a")


def test_a_checksum_that_differs_on_refetch_is_listed_and_never_taken(programs: Upstreams) -> None:
    programs.tag("actions/runner", "v2.0.0")
    pages = {"/nix-2.99.0-x86_64.tar.xz.sha256": (200, {}, b"e" * 64)}
    with publishers(pages) as address, Remote({"CI_COMPILE_UPSTREAMS": programs.address}) as remote:
        table = json.loads(pins(address))
        table["archives"] = {
            "nix": table["archives"]["nix"] | {"version": "2.99.0", "sha256": {"amd64": SUM["x86_64"]}}
        }
        table["archives"]["nix"]["machines"].pop("arm64")
        table["base"]["digest"] = NEW
        (found,) = stale_release_pins(json.dumps(table), remote, 0, fetch=True)
    assert (found.now, found.right, found.edits) == (SUM["x86_64"], "e" * 64, ())
    assert "2.99.0 has another checksum now (archives.nix.sha256.amd64)" in found.why


def test_a_check_of_the_tables_goes_on_where_one_publisher_cannot_be_read(
    programs: Upstreams, fleet: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The chart's repository is gone, and the registry refuses; a new release of the runner is listed."""
    (programs.folder / "actions/actions-runner-controller").rename(programs.folder / "gone")
    with publishers({MANIFEST: (500, {}, b"")}) as address:
        monkeypatch.setenv("GITHUB_API_URL", address)
        fleet.write(PINS, pins(address))
        assert fleet.ci("update", "--check") == 1
        said = capsys.readouterr()
    assert said.err.count("[upstream-unreachable]") == len(said.err.splitlines()) == 2
    assert next(line.split()[1:4] for line in said.out.splitlines()) == ["runner", "2.336.0", "3.0.0"]
