"""Flox in a job: what it is asked, with which token, and what publishing does to the checkout."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ci_compiler.backends.flox_programs import FloxPrograms
from ci_compiler.backends.job import BuildOrder, JobContext
from ci_compiler.secret import Secret
from tests.backends.programs import NIX, TORCH, Build, Programs, derived, fails, outcome, path, says
from tests.checkers import require

TOKEN = "FLOX_FLOXHUB_TOKEN"  # noqa: S105  (its name)
JOB = JobContext(root=Path(), owner="my-org", cache=None, secrets={TOKEN: Secret("hush")}, seconds=60)
ANSWERS = {
    "nix-instantiate --eval *": says("[]"),
    "nix-instantiate *": says(path("torch.drv")),
    f"{NIX} store cat *": derived(TORCH),
    "nix-store --query --requisites *": says(TORCH),
    "nix-store --dump-db *": says(TORCH, "00" * 32, "1", "", "0"),
}


@pytest.fixture(scope="module")
def git() -> str:
    return require("git")


@pytest.fixture
def flox(git: str, nix: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Programs with flox, in a repository on no branch whose main is pushed."""
    monkeypatch.chdir(tmp_path)
    (nix.folder / "flox").symlink_to("any")
    nix.answer(ANSWERS)
    (nix.folder / "git").symlink_to(git)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "a")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@example.com")
    for words in (
        *("init --quiet --initial-branch=main", "init --quiet --bare origin", "remote add origin ./origin"),
        *("commit --quiet --allow-empty --message=change", "push --quiet origin main", "checkout --quiet --detach"),
    ):
        subprocess.run([git, *words.split()], check=True)
    return nix


@pytest.mark.parametrize(
    ("printed", "is_there"),
    [
        ("torch - a package\nLatest:  my-org/torch@2.8.0", True),
        ("Other versions:\n    my-org/torch@2.9.1\n    my-org/torch@2.8.0, x86_64-linux", True),
        ("torch@2.8.0", True),
        ("my-org/torch@2.8.0.1", False),
        ("my-org/torch@2.9.1", False),
        ("other/torch@2.8.0", False),
        ("my-torch@2.8.0", False),
        ("my-org/torchvision@2.8.0", False),
        ("no version 2.8.0", False),
    ],
)
def test_a_version_is_published_if_flox_shows_it(nix: Programs, tmp_path: Path, printed: str, is_there: bool) -> None:
    (nix.folder / "flox").symlink_to("any")
    nix.answer({"flox *": f'test "${TOKEN}" = hush && {says(*printed.splitlines())}'})
    programs = FloxPrograms(JOB._replace(root=tmp_path), TOKEN)
    assert programs.is_published("torch", "2.8.0", "torch.nix", []) == is_there
    assert programs.published(Build(), []) == ("flox show lists my-org/torch@2.8.0" if is_there else "")
    assert nix.commands == ["flox show my-org/torch"] * 2


def test_without_a_token_flox_shows_what_is_public(nix: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    (nix.folder / "flox").symlink_to("any")
    nix.answer({"flox *": f'test -z "${TOKEN}" && {says("my-org/torch@2.8.0")}'})
    programs = FloxPrograms(JOB._replace(secrets={}), TOKEN)
    assert programs.is_published("torch", "2.8.0", "torch.nix", [])
    assert outcome(lambda: programs.publish(Build())) == (
        f"{TOKEN}: is not set; the secret of GitHub's environment goes into the step that publishes [secret-missing]"
    )


def test_flox_builds_by_name(flox: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    flox.answer({"flox build *": f"echo made; ln -s {TORCH} result-$2"})
    order = BuildOrder(name="torch", recipe="torch.nix", needs=(), log=Path("build.log"))
    assert FloxPrograms(JOB, TOKEN).build(order).outputs == (TORCH,)
    assert "flox build torch" in flox.commands
    assert (capsys.readouterr().out, Path("build.log").read_text("utf-8")) == ("made\n", "made\n")


def test_publishing_happens_on_the_branch_with_the_token_in_flox_alone(
    git: str, flox: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    flox.answer({"flox publish *": f'echo "from $({git} branch --show-current) with ${TOKEN}"'})
    commit = subprocess.run([git, "rev-parse", "HEAD"], capture_output=True, encoding="utf-8", check=True).stdout
    build = Build(commit=commit.strip())
    FloxPrograms(JOB, TOKEN).publish(build)
    assert flox.commands == ["flox publish -o my-org torch"]
    assert capsys.readouterr().out == "from main with ***\n"
    flox.answer({"flox publish *": fails("the token hush has expired", 3)})
    assert outcome(lambda: FloxPrograms(JOB, TOKEN).publish(build)) == (
        "torch: flox publish ended with 3 after 0 s: the token *** has expired [publish-failed]"
    )
