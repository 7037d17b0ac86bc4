"""Publishing secrets stay out of the environment of the programs that a stage starts."""

from __future__ import annotations

import os

import pytest

from ci_compiler.process import ask
from ci_compiler.runner.jobs.setting import taking_secrets
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
