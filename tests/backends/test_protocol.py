"""What a backend does that states nothing else than it must."""

from __future__ import annotations

import pytest

from ci_compiler.backends.protocol import Backend, CachePush, InstallRequest, NixUse, OutputForms, SecretEvidence, Tool
from ci_compiler.hardware.machine import Machine
from ci_compiler.judgement import Judgement, failed, ok

MACHINE = Machine(system="x86_64-linux")


class Least(Backend):
    """What every backend must have."""

    name, title, summary, withdrawal, secret = "least", "Least", "cp, cp", "rm", "KEY"
    tools: tuple[Tool, ...] = (Tool(name="cp", install="install cp"), Tool(name="rm", install="install rm"))
    forms: OutputForms

    def check_secret(self, evidence: SecretEvidence) -> Judgement:
        return ok(evidence.name)

    def install(self, request: InstallRequest) -> tuple[str, ...]:
        return request.declared

    programs = None


class Bare(Least):
    """It needs no program, and makes what runs anywhere."""

    tools = ()
    platforms = ()


def test_what_is_not_stated_is_what_most_backends_do() -> None:
    least = Least()
    assert str(least) == "least"
    assert (least.has_recipes, least.uses_artifacts, least.installer, least.nix) == (True, False, "", NixUse.NONE)
    assert (least.publishes_into_cache, least.builds_to_publish, least.reads_loader_cache) == (False, False, False)
    assert (least.image, least.locks, least.about) == ("nix", (), ("", ""))
    assert least.secret_command("hush") == ()
    assert least.verify("import x", (), None) == ()
    assert InstallRequest("my-org", "main", (), (), None).declared == ()
    assert SecretEvidence("", 0, 0, "", None, MACHINE, None).name == ""
    assert [one.value for one in (*NixUse, *CachePush)] == ["none", "own", "installed", "all", "own"]


@pytest.mark.parametrize(
    ("backend", "found", "judgement"),
    [
        (Least(), {"cp", "rm"}, ok("cp, rm")),
        (Least(), {"cp"}, failed("rm is not on PATH", "install rm")),
        (Least(), set(), failed("cp is not on PATH", "install cp")),
        (Bare(), set(), ok("no program is needed")),
    ],
)
def test_a_machine_needs_every_tool(backend: Backend, found: set[str], judgement: Judgement) -> None:
    assert backend.check_tools(MACHINE, found, testing=False) == judgement


@pytest.mark.parametrize(
    ("platform", "least", "bare"),
    [("x86_64-linux", True, True), ("aarch64-darwin", True, True), ("x86_64-windows", False, True)],
)
def test_by_default_it_makes_what_runs_on_linux_and_macos(platform: str, least: bool, bare: bool) -> None:
    assert (Least().makes(platform), Bare().makes(platform)) == (least, bare)
