"""The backend `flox`: what it judges, and the commands that it gives to users."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.backends import backend_of
from ci_compiler.backends.flox_programs import FloxPrograms
from ci_compiler.backends.job import JobContext
from ci_compiler.backends.protocol import InstallRequest, SecretEvidence
from ci_compiler.hardware.machine import Machine, NixInstallation
from ci_compiler.judgement import Judgement, failed, ok

FLOX = backend_of("flox")
NIX = NixInstallation(version="2.28.7", sandbox="true", features=(), max_jobs=1, cores=1, source="nix")
ABSENT = failed("flox is not on PATH", "install it from https://flox.dev/docs/install-flox, for the runner's user")


def test_the_others_read_its_facts() -> None:
    assert (FLOX.title, FLOX.summary, FLOX.secret) == ("Flox", "flox build, flox publish", "FLOX_FLOXHUB_TOKEN")
    assert (FLOX.installer, FLOX.image) == ("flox/install-flox-action", "flox")
    assert FLOX.locks == (".flox/env/manifest.lock", ".flox/nix-builds.lock")
    assert (FLOX.builds_to_publish, FLOX.reads_loader_cache, FLOX.publishes_into_cache) == (True, True, False)
    assert FLOX.about[1] == FLOX.tools[0].install.split()[3].rstrip(",") == "https://flox.dev/docs/install-flox"


@pytest.mark.parametrize(
    ("flox", "nix", "testing", "judgement"),
    [
        ("1.14.0", NIX, False, ok("flox 1.14.0, Nix 2.28.7")),
        ("1.14.0", None, False, ok("flox 1.14.0, its own Nix, none on PATH")),
        ("", NIX, True, ok("no flox, but Nix 2.28.7, which is enough for a test")),
        ("", NIX, False, ABSENT),
        ("", None, True, ABSENT),
    ],
)
def test_a_machine_needs_flox_or_nix_for_a_test(
    flox: str, nix: NixInstallation | None, testing: bool, judgement: Judgement
) -> None:
    assert FLOX.check_tools(Machine(system="x86_64-linux", flox=flox, nix=nix), (), testing=testing) == judgement


def test_flox_is_asked_about_a_token_that_states_nothing() -> None:
    assert FLOX.secret_command("flox_pat_hush") == ("flox", "auth", "status")
    assert FLOX.secret_command("a.b.c") == ()
    shown = SecretEvidence("", 0, 0, "my-org", None, Machine(system="x86_64-linux"), None)
    assert FLOX.check_secret(shown).message.startswith("FLOX_FLOXHUB_TOKEN is not a FloxHub token")


def test_variants_are_installed_together_and_run_in_the_environment() -> None:
    wanted = (("torch", "2.8.0"), ("torchvision", ""))
    request = InstallRequest(owner="my-org", branch="main", recipes=(), wanted=wanted, cache=None)
    assert FLOX.install(request) == ("flox install my-org/torch@2.8.0 my-org/torchvision",)
    assert FLOX.verify("import torch", (), None) == ("flox activate -- python3 -c 'import torch'",)


@pytest.mark.usefixtures("nix")
def test_its_programs_publish_with_its_secret() -> None:
    programs = FLOX.programs(JobContext(root=Path(), owner="my-org", cache=None, secrets={}, seconds=60))
    assert isinstance(programs, FloxPrograms)
    assert programs.builder.name == "flox"
