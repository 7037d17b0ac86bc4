"""A program in a container of the machine's engine, or in none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_compiler.backends.container import contained
from ci_compiler.errors import InputError
from tests.backends.programs import Programs

USER = f"--user={os.getuid()}:{os.getgid()}"


@pytest.mark.parametrize(
    ("engines", "chosen", "more"),
    [(("docker",), "docker", []), (("podman",), "podman", ["--userns=keep-id"]), (("podman", "docker"), "docker", [])],
)
def test_a_program_runs_in_a_container_that_is_removed_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engines: tuple[str, ...], chosen: str, more: list[str]
) -> None:
    programs = Programs(tmp_path, monkeypatch, *engines)
    (tmp_path / "link").symlink_to(root := tmp_path / "root")
    root.mkdir()
    read = [root / "needs", tmp_path / "other"]
    with (
        pytest.raises(KeyboardInterrupt),
        contained("image@sha256:0", tmp_path / "link", ["NAME", "LEVEL"], read) as words,
    ):
        raise KeyboardInterrupt
    name = words[4].removeprefix("--name=")
    assert name.startswith("ci-runner-")
    assert words == [
        *(f"{programs.folder}/{chosen}", "run", "--rm", "--init", f"--name={name}", USER, f"--volume={root}:{root}"),
        *(f"--volume={tmp_path}/other:{tmp_path}/other:ro", *more, f"--workdir={root}", "--env=HOME=/tmp"),
        *("--env=NAME", "--env=LEVEL", "image@sha256:0"),
    ]
    assert programs.commands == [f"{chosen} rm --force {name}"]


def test_without_an_image_there_is_no_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(tmp_path, monkeypatch)
    with contained("", tmp_path, ["NAME"]) as words:
        assert words == []
    assert programs.commands == []
    with pytest.raises(InputError) as raised, contained("image", tmp_path, []):
        pass
    assert str(raised.value) == (
        "docker: docker is not on PATH; install Docker or Podman: the build runs in a container [program-missing]"
    )
