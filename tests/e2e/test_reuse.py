"""Nothing is built twice: later runs take what an earlier one built, and ask no machine for what it completed."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.backends.wheel import NAME
from tests.github.server import serving
from tests.github.state import REPOSITORY, TOKEN, GitHub

from .test_command import STAGES, WheelWorld
from .world import in_a_folder

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from .act import Run

SHARD = "build-main-cpu.yml"


class ReusingWorld(WheelWorld):
    """A world whose package is reused, and whose machines ask a GitHub that knows of earlier runs."""

    def _make_repository(self) -> None:
        super()._make_repository()
        self.declare(reuse=True)
        self.commit("Build nothing twice")
        self.git("push", "--quiet", "origin", "main")

    def _secrets(self) -> dict[str, str]:
        return super()._secrets() | {"GITHUB_TOKEN": TOKEN}

    def ask(self, github: GitHub) -> None:
        """Has the commands of all machines ask `github`."""
        self.github = f"{github.url} {REPOSITORY}"
        self.__dict__.pop("environment", None)

    def tell(self, github: GitHub, run: Run) -> None:
        """Tells `github` of a dispatch of the shard at the newest commit of main."""
        github.workflows.setdefault(f".github/workflows/{SHARD}", {"id": 7})
        commit, tree = (self.git("rev-parse", f"origin/main{what}") for what in ("", "^{tree}"))
        entry = github.add_run(f".github/workflows/{SHARD}", [], event="workflow_dispatch", head_sha=commit)
        entry["head_repository"] = entry["head_repository"] | {"id": entry["repository"]["id"]}
        entry["head_commit"] = entry["head_commit"] | {"id": commit, "tree_id": tree}
        github.moves.setdefault("refs/heads/main", []).append(commit)
        (self.root / f"of-run-{entry['id']}").symlink_to(run.artifacts)
        for artifact in run.artifacts.iterdir():
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as archive:
                for path in filter(Path.is_file, artifact.rglob("*")):
                    archive.write(path, path.relative_to(artifact))
            github.add_artifact(entry["id"], artifact.name, packed.getvalue())


@pytest.fixture(scope="module")
def world() -> Iterator[ReusingWorld]:
    yield from in_a_folder(ReusingWorld)


def test_a_run_takes_what_was_built_and_asks_no_machine_for_what_is_complete(world: ReusingWorld) -> None:
    world.edit("src/fastpath.py", "2 * number", "number + number")
    first_commit = world.commit("Add in place of multiplying")
    with serving(GitHub()) as github:
        world.ask(github)
        world.git("push", "--quiet", "origin", "main")
        first = world.dispatch(SHARD, "main", variant=NAME, publish="true")
        assert first.status == 0, first.log.said
        assert len([*world.index.rglob("*.whl")]) == 1
        world.tell(github, first)

        again = world.dispatch(SHARD, "main", variant=NAME, publish="true")
        assert again.status == 0, again.log.said
        assert again.journal == ()
        assert f"1 variant left out, which `https://github.com/{REPOSITORY}/actions/runs/" in again.log.summary

        (world.clone / "README.md").write_text("Nothing that is built.\n", "utf-8")
        world.commit("Say more")
        world.git("push", "--quiet", "origin", "main")
        other = world.dispatch(SHARD, "main", variant=NAME, publish="false")
        assert other.status == 0, other.log.said
        assert other.did(NAME) == [STAGES[0], "build earlier", *STAGES[1:]]
        manifest = other.json(f"build-{NAME}", "manifest.json")
        assert (manifest["built"], manifest["origin"]) == (False, first_commit)
        assert github.problems == []
