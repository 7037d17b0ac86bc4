"""The backend `command`: its facts, and the commands that it gives to users."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.backends import backend_of
from ci_compiler.backends.command_programs import CommandPrograms
from ci_compiler.backends.job import JobContext
from ci_compiler.backends.protocol import InstallRequest, SecretEvidence
from ci_compiler.hardware.machine import Machine
from ci_compiler.judgement import ok

COMMAND = backend_of("command")


def test_the_others_read_its_facts() -> None:
    assert (COMMAND.title, COMMAND.secret) == ("Command", "PUBLISH_TOKEN")
    assert COMMAND.summary == "the build script and the publishing command of each package"
    assert COMMAND.withdrawal.startswith("use the means of the index that `command.publish` uploads to")
    assert (COMMAND.has_recipes, COMMAND.uses_artifacts, COMMAND.reads_loader_cache) == (False, True, True)
    assert (COMMAND.installer, [tool.name for tool in COMMAND.tools]) == ("", ["bash"])
    assert COMMAND.makes("x86_64-windows")


@pytest.mark.parametrize(
    ("form", "text", "fits"),
    [
        ("derivation", "ci/build.sh", True),
        ("derivation", ".ci/build_all-1.sh", True),
        *(("derivation", text, False) for text in ("", "../build.sh", "ci/../x", "ci/.", "/bin/sh", "-x", "a b")),
        ("path", "files/torch-2.8.0+cpu-py3-none-any.whl", True),
        *(("path", text, False) for text in ("torch.whl", "files/.x", "files/a/b", "files/-x", "files/")),
        ("content", f"sha256:{'0f' * 32}", True),
        *(("content", f"sha256:{digits}", False) for digits in ("0f" * 31, "0F" * 32, "0f" * 33)),
    ],
)
def test_a_manifest_has_scripts_files_and_digests(form: str, text: str, fits: bool) -> None:
    assert bool(getattr(COMMAND.forms, form).fullmatch(text)) == fits


def test_the_declared_commands_install_and_any_secret_may_be_right() -> None:
    request = InstallRequest("my-org", "main", (), (("torch", ""),), None, declared=("pip install torch",))
    assert COMMAND.install(request) == ("pip install torch",)
    assert COMMAND.verify("import torch", (), None) == ("python3 -c 'import torch'",)
    shown = SecretEvidence("hush", 0, 0, "my-org", None, Machine(system="x86_64-linux"), None, name="INDEX_KEY")
    message = "given: INDEX_KEY; only publishing shows whether the place accepts what was given"
    assert COMMAND.check_secret(shown) == ok(message)
    job = JobContext(root=Path(), owner="my-org", cache=None, secrets={}, seconds=60)
    assert isinstance(COMMAND.programs(job), CommandPrograms)
