"""The backend `nix`: what it judges, and the commands that it gives to users."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from ci_compiler.backends import backend_of
from ci_compiler.backends.job import JobContext
from ci_compiler.backends.nix_programs import NixPrograms
from ci_compiler.backends.protocol import InstallRequest, SecretEvidence
from ci_compiler.hardware.machine import Machine, NixInstallation
from ci_compiler.judgement import Judgement, failed, ok
from ci_compiler.spec.model import Cache
from tests.backends.programs import CACHE, KEY, URL

NIX = backend_of("nix")
INSTALLED = NixInstallation(version="2.28.7", sandbox="true", features=(), max_jobs=1, cores=1, source="nix")
ABSENT = failed("nix is not on PATH", "install Nix, and put it on the PATH of the runner's service")
OPTIONS = f"--option extra-substituters {URL} --option extra-trusted-public-keys {KEY}"


def test_the_others_read_its_facts() -> None:
    assert (NIX.title, NIX.summary, NIX.secret) == ("Nix", "nix-build, nix copy to `cache`", "NIX_CACHE_SIGNING_KEY")
    assert [tool.name for tool in NIX.tools] == ["nix"]
    assert (NIX.installer, NIX.image, NIX.about[1]) == (
        "cachix/install-nix-action",
        "nix",
        "https://nixos.org/download/",
    )
    assert (NIX.publishes_into_cache, NIX.builds_to_publish, NIX.reads_loader_cache) == (True, False, False)


@pytest.mark.parametrize(
    ("installed", "judgement"),
    [
        (INSTALLED, ok("Nix 2.28.7")),
        (None, ABSENT),
        (NixInstallation(version="", sandbox="", features=(), max_jobs=0, cores=0, source=""), ABSENT),
    ],
)
def test_a_machine_needs_nix(installed: NixInstallation | None, judgement: Judgement) -> None:
    assert NIX.check_tools(Machine(system="x86_64-linux", nix=installed), (), testing=True) == judgement


SECRET = base64.b64encode(bytes(range(64))).decode()
PUBLIC = base64.b64encode(bytes(range(32, 64))).decode()
PAIR = Cache(url=URL, public_key=f"my-cache:{PUBLIC}")
FIX = (
    "make a pair with `nix key generate-secret`, its public half into cache.public-key, into the secret "
    "NIX_CACHE_SIGNING_KEY"
)
NO_KEY = failed("NIX_CACHE_SIGNING_KEY holds no signing key of Nix (NAME:BASE64)", FIX)
FOREIGN = "NIX_CACHE_SIGNING_KEY is the key {}, which is not the pair of cache.public-key in the spec"


@pytest.mark.parametrize(
    ("key", "cache", "judgement"),
    [
        (f" my-cache:{SECRET}\n", PAIR, ok("NIX_CACHE_SIGNING_KEY is the pair of the cache's public key my-cache")),
        (f"my-cache:{SECRET}", None, ok("NIX_CACHE_SIGNING_KEY is the key my-cache")),
        (f"other:{SECRET}", PAIR, failed(FOREIGN.format("other"), FIX)),
        (f"my-cache:{SECRET}", CACHE, failed(FOREIGN.format("my-cache"), FIX)),
        (f"my-cache:{PUBLIC}", PAIR, NO_KEY),
        ("my-cache:?", PAIR, NO_KEY),
        ("", PAIR, NO_KEY),
    ],
)
def test_a_signing_key_is_the_pair_of_the_public_one(key: str, cache: Cache | None, judgement: Judgement) -> None:
    shown = SecretEvidence(key, 0, 0, "my-org", cache, Machine(system="x86_64-linux"), None)
    assert NIX.check_secret(shown) == judgement


def test_only_the_public_key_may_sign() -> None:
    """A key that is on its way out, or in, counts for users alone."""
    cache = Cache(url=URL, public_key=KEY, further_keys=(PAIR.public_key,))
    shown = SecretEvidence(f"my-cache:{SECRET}", 0, 0, "my-org", cache, Machine(system="x86_64-linux"), None)
    assert NIX.check_secret(shown) == failed(FOREIGN.format("my-cache"), FIX)


def test_users_trust_both_keys_while_one_replaces_the_other() -> None:
    cache = Cache(url=URL, public_key=KEY, further_keys=("cache-0:old",))
    request = InstallRequest(owner="my-org", branch="main", recipes=("torch.nix",), wanted=(), cache=cache)
    assert f"--option extra-trusted-public-keys '{KEY} cache-0:old'" in NIX.install(request)[1]


@pytest.mark.parametrize(("cache", "options"), [(CACHE, f" {OPTIONS}"), (None, "")])
def test_variants_are_built_from_the_branch_with_what_the_cache_has(cache: Cache | None, options: str) -> None:
    recipes = ("torch.nix", "torchvision.nix")
    request = InstallRequest(owner="my-org", branch="my branch", recipes=recipes, wanted=(), cache=cache)
    assert NIX.install(request) == ("git switch 'my branch'", f"nix-build torch.nix torchvision.nix{options}")
    built = "let built = [ (import ./torch.nix { }) (import ./torchvision.nix { }) ]"
    python = f"'{built}; in (builtins.head built).pythonModule.withPackages (_: built)'"
    command = f"\"$(nix-build --no-out-link --expr {python}{options})/bin/python3\" -c 'import torch'"
    assert NIX.verify("import torch", recipes, cache) == (command,)
    assert NIX.verify("import torch", (), cache) == ()


@pytest.mark.usefixtures("nix")
def test_its_programs_are_those_of_nix() -> None:
    job = JobContext(root=Path(), owner="my-org", cache=None, secrets={}, seconds=60)
    assert isinstance(NIX.programs(job), NixPrograms)
