"""Publishing secrets stay out of the environment of the programs that a stage starts."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest

from ci_compiler.cli.stage import reported
from ci_compiler.cli.where import spec_of
from ci_compiler.process import ask
from ci_compiler.runner.jobs.setting import Secrets, taking_secrets
from tests.backends import wheel
from tests.processes import MINUTES


def test_no_program_inherits_a_publishing_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOX_FLOXHUB_TOKEN", "hush")
    monkeypatch.setenv("NIX_CACHE_SIGNING_KEY", " ")
    monkeypatch.setenv("WHEELS_KEY", "hush, too")
    with taking_secrets(["WHEELS_KEY"]) as secrets:
        shown = {key: secret.reveal() for key, secret in secrets.items()}
        assert shown == {"FLOX_FLOXHUB_TOKEN": "hush", "WHEELS_KEY": "hush, too"}
        assert "hush" not in ask(["env"], seconds=MINUTES).out
    assert os.getenv("FLOX_FLOXHUB_TOKEN", "").startswith("hush")


def test_a_stage_takes_the_secrets_that_its_spec_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ".github/ci-matrix.yaml"
    path.parent.mkdir()
    path.write_text(json.dumps(wheel.spec(secrets=["WHEELS_KEY"])), "utf-8")
    monkeypatch.setenv("WHEELS_KEY", "hush")

    def work(arguments: argparse.Namespace, secrets: Secrets) -> int:
        assert spec_of(arguments) is arguments.known_spec
        assert (secrets["WHEELS_KEY"].reveal(), os.environ.get("WHEELS_KEY")) == ("hush", None)
        return 0

    assert reported(work)(argparse.Namespace(root=tmp_path)) == 0
