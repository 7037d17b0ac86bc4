"""What a maintainer has built of a fork: its recipes and sources on the base branch, and never anything else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.codes import Code
from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.spec.build import parse_spec
from ci_compiler.sync.fork_code import fork_tree
from tests.checkers import require
from tests.github.conftest import github
from tests.github.state import REPOSITORY, TOKEN, GitHub
from tests.recipes.test_affected import Repository
from tests.repositories import copy_once, init
from tests.specs import SMALL, small

__all__ = ["github"]

CPU, GPU = "python313-cpu-avx2", "python313-cuda12_8-sm90-avx2"
OWN = f".flox/pkgs/pytorch-{CPU}.nix"
COMPILED = f".flox/pkgs/torchvision-{CPU}.nix"
TEMPLATE, OVERLAY, SHARED, TOOLKIT = "nix/torchvision.nix", "nix/overlay.nix", "nix/shared", "tools/ci.txt"

REBUILT = [f"pytorch-{CPU}", f"torchaudio-{CPU}"]
"""What an edit of `OWN` rebuilds: the recipe, and the compiled one that imports it."""

RUNNERS: dict[str, Any] = SMALL["runners"] | {
    "for-forks": {"runs-on": ["self-hosted", "linux", "x64", "fork-builder"], "cpu": ["avx2"], "untrusted": True}
}
PACKAGES: dict[str, Any] = {
    "pytorch": {"attribute": "torch", "recipes": "own", "shared": [SHARED]},
    "torchvision": {"needs": ["pytorch"], "recipes": "template", "template": TEMPLATE},
    "torchaudio": {"needs": ["pytorch"], "overlays": [OVERLAY]},
}
VERSIONS = {"pytorch": "2.8.0", "torchvision": "0.23.0", "torchaudio": "2.8.0"}
BRANCH = SMALL["branches"]["main"] | {"versions": VERSIONS}
MATRIX = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}, "sm90": {}}}
SPEC = json.dumps(
    small(runners=RUNNERS, packages=PACKAGES, branches={"main": BRANCH}, matrix=MATRIX) | {"toolkit": f"./{TOOLKIT}"}
)
FEWER_JOBS = SPEC.replace('"overlays"', '"jobs": 4, "overlays"')


def base_with_remote(folder: Path) -> None:
    """The repository, compiled, in `base`, and its remote."""
    made = Repository(folder / "base")
    for name in (CPU, GPU):
        made.write(f".flox/pkgs/pytorch-{name}.nix", f"import ../../{SHARED}/build.nix {{ }}\n")
    files = {TEMPLATE: "{ }: null", OVERLAY: "_: _: { }", f"{SHARED}/build.nix": "{ }: null", TOOLKIT: "x"}
    for path, text in {**files, ".github/ci-matrix.yaml": SPEC, "README.md": "x\n"}.items():
        made.write(path, f"{text}\n")
    for words in ([], ["recipes", "--branch", "main"]):
        assert made.ci(*words) == 0
    made.commit()
    init(folder / "remote", bare=True)
    made.git("remote", "add", "origin", str(folder / "remote"))
    made.git("push", "-q", "origin", "main")


@pytest.fixture
def base(tmp_path: Path) -> Repository:
    """The repository with its remote; its last commit is the tip of `main`."""
    require("git")
    copy_once(base_with_remote, tmp_path)
    return Repository(tmp_path / "base")


def forked(base: Repository, edits: Mapping[str, str | None]) -> str:
    """A commit of a fork with `edits` (None: removed), which the remote has as the head of a pull request."""
    base.git("checkout", "-q", "-b", "theirs", "main")
    for path, text in edits.items():
        base.write(path, text)
    return offered(base)


def offered(base: Repository) -> str:
    """Commits what is checked out as the head of a pull request, and goes back to `main` without it."""
    commit = base.commit()
    base.git("push", "-q", "origin", f"{commit}:refs/pull/7/head")
    base.git("checkout", "-q", "main")
    base.git("branch", "-q", "-D", "theirs")
    return commit


def refusals(base: Repository, commit: str) -> dict[str, str]:
    """The message of each refused path."""
    spec = parse_spec(SPEC.encode(), shown=".github/ci-matrix.yaml")
    with pytest.raises(InputError) as raised:
        fork_tree(Git(base.root), spec, "main", base.git("rev-parse", "main"), commit)
    assert {one.code for one in raised.value.findings} == {Code.FORK_CHANGE}
    return {one.place.file: one.message for one in raised.value.findings}


def test_recipes_and_what_they_read_are_taken(base: Repository) -> None:
    edits: dict[str, str | None] = {
        OWN: "{ }: 1\n",
        f".flox/pkgs/pytorch-{GPU}.nix": None,
        ".flox/pkgs/lib/new.nix": "{ }: 2\n",
        f"{SHARED}/build.nix": "{ }: 3\n",
    }
    commit = forked(base, edits)
    base.write("README.md", "later\n")  # main went on
    base.commit()
    spec = parse_spec(SPEC.encode(), shown=".github/ci-matrix.yaml")
    landing = fork_tree(Git(base.root), spec, "main", base.git("rev-parse", "main"), commit)
    assert landing.parent == base.git("rev-parse", "main")
    changed = base.git("diff", "--name-only", landing.parent, landing.tree).splitlines()
    assert changed == sorted(edits)
    assert base.git("show", f"{landing.tree}:{OWN}") == "{ }: 1"
    assert base.git("show", f"{landing.tree}:README.md") == "later"


REFUSED = {
    ".github/workflows/pull-request.yml": "workflows, actions, hooks and settings",
    ".github/workflows/new.yml": "workflows, actions, hooks and settings",
    ".github/actions/setup-ci-compiler/action.yml": "workflows, actions, hooks and settings",
    ".github/actions/new/action.yml": "workflows, actions, hooks and settings",
    ".github/ci-matrix.yaml": "workflows, actions, hooks and settings",
    ".GitHub/workflows/new.yml": "workflows, actions, hooks and settings",
    ".githooks/pre-commit": "workflows, actions, hooks and settings",
    ".gitattributes": "workflows, actions, hooks and settings",
    ".gitmodules": "workflows, actions, hooks and settings",
    ".flox/pkgs/.gitattributes": "workflows, actions, hooks and settings",
    ".flox/pkgs/.github/workflows/new.yml": "workflows, actions, hooks and settings",
    ".pre-commit-config.yaml": "neither a recipe nor a source",
    "runner-images/builder/job-started.sh": "neither a recipe nor a source",
    ".flox/env/manifest.toml": "neither a recipe nor a source",
    ".flox/pkgsx/a.nix": "neither a recipe nor a source",
    "README.md": "neither a recipe nor a source",
    TEMPLATE: "a maintainer has to make this change",
    OVERLAY: "a maintainer has to make this change",
    TOOLKIT: "a maintainer has to make this change",
    COMPILED: "is compiled from the spec",
    f".flox/pkgs/torchaudio-{GPU}.nix": "is compiled from the spec",
    ".flox/pkgs/a`id`.nix": "a character in its name",
    ".flox/pkgs/$(id).nix": "a character in its name",
    ".flox/pkgs/a\nb.nix": "a character in its name",
    ".flox/pkgs/ä.nix": "a character in its name",
}


def test_no_other_file_comes_from_a_fork(base: Repository) -> None:
    found = refusals(base, forked(base, {**dict.fromkeys(REFUSED, "edited\n"), OWN: "{ }: 1\n"}))
    assert found.keys() == REFUSED.keys()
    assert [path for path, why in REFUSED.items() if why not in found[path]] == []


def test_nothing_else_can_be_removed_or_renamed_into_a_recipe(base: Repository) -> None:
    paths = [".github/ci-matrix.yaml", ".github/workflows/cell.yml", "README.md", TEMPLATE]
    base.git("checkout", "-q", "-b", "theirs", "main")
    for number, path in enumerate(paths):
        base.git("mv", path, f".flox/pkgs/mine-{number}.nix")
    assert list(refusals(base, offered(base))) == paths


def test_a_recipe_cannot_be_renamed_into_a_workflow(base: Repository) -> None:
    base.git("checkout", "-q", "-b", "theirs", "main")
    base.git("mv", OWN, ".github/workflows/mine.yml")
    assert list(refusals(base, offered(base))) == [".github/workflows/mine.yml"]


def test_links_and_submodules_are_refused_and_programs_are_not(base: Repository) -> None:
    base.git("checkout", "-q", "-b", "theirs", "main")
    (base.root / ".flox/pkgs/link.nix").symlink_to("../../.github/ci-matrix.yaml")
    (base.root / OWN).unlink()
    (base.root / OWN).symlink_to("/etc/passwd")
    (base.root / ".flox/pkgs/folder").symlink_to("../../.github")
    base.write(".flox/pkgs/build.sh", "#!/bin/sh\n")
    (base.root / ".flox/pkgs/build.sh").chmod(0o755)
    base.git("update-index", "--add", "--cacheinfo", f"160000,{base.git('rev-parse', 'HEAD')},.flox/pkgs/sub")
    base.git("add", "-A", "--", ".flox/pkgs/link.nix", ".flox/pkgs/folder", ".flox/pkgs/build.sh", OWN)
    base.git("commit", "-qm", "x")
    commit = base.git("rev-parse", "HEAD")
    base.git("checkout", "-q", "-f", "main")
    paths = [".flox/pkgs/folder", ".flox/pkgs/link.nix", OWN, ".flox/pkgs/sub"]
    assert refusals(base, commit) == dict.fromkeys(paths, "is a link or a submodule")


def test_what_the_branch_changed_as_well_is_refused(base: Repository) -> None:
    commit = forked(base, {OWN: "{ }: 1\n", "README.md": "theirs\n"})
    base.write(OWN, "{ }: 2\n")
    base.write("README.md", "ours\n")
    base.commit()
    assert refusals(base, commit) == {
        OWN: "was also changed on main; merge main into the pull request first",
        "README.md": "is neither a recipe nor a source that the spec declares",
    }


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(".flox/pkgs/lib", ".flox/pkgs/lib/a.nix"), (".flox/pkgs/lib/a.nix", ".flox/pkgs/lib")],
    ids=["a file over a folder", "a folder over a file"],
)
def test_nothing_of_the_branch_gives_way_to_a_path_of_the_fork(base: Repository, theirs: str, ours: str) -> None:
    commit = forked(base, {theirs: "{ }: 1\n"})
    base.write(ours, "{ }: 2\n")
    base.commit()
    message = "a file and a folder of the same name meet here; merge main into the pull request first"
    assert refusals(base, commit) == {ours: message}


def test_a_fork_of_an_older_time_cannot_put_a_file_in_the_place_of_all_recipes(base: Repository) -> None:
    """Its commit has no recipe that it would remove: they came to the branch later."""
    empty, tree = base.git("hash-object", "-t", "tree", "-w", "/dev/null"), base.git("rev-parse", "main^{tree}")
    old = base.git("commit-tree", empty, "-m", "Begin")
    base.git("reset", "-q", "--hard", base.git("commit-tree", tree, "-p", old, "-m", "Add recipes"))
    base.git("checkout", "-q", "-b", "theirs", old)
    base.write(".flox/pkgs", "{ }: 1\n")
    assert {COMPILED, OWN, ".flox/pkgs/.gitattributes"} <= refusals(base, offered(base)).keys()


def test_a_path_that_leaves_its_folder_is_refused(base: Repository) -> None:
    """Git writes no such tree, but somebody could."""

    def around(name: str, kind: str, of: str) -> str:
        entry = f"{kind} {name}\0".encode() + bytes.fromhex(of)
        command = ["git", "-C", str(base.root), "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
        return subprocess.run(command, input=entry, check=True, capture_output=True).stdout.decode().strip()

    found = around("job-started.sh", "100644", base.git("rev-parse", f"main:{OWN}"))
    for name in ("runner-images", "..", "..", "pkgs", ".flox"):
        found = around(name, "40000", found)
    empty = base.git("commit-tree", base.git("hash-object", "-t", "tree", "-w", "/dev/null"), "-m", "Begin")
    base.git("reset", "-q", "--hard", base.git("commit-tree", "main^{tree}", "-p", empty, "-m", "Add recipes"))
    commit = base.git("commit-tree", found, "-p", empty, "-m", "x")
    path = ".flox/pkgs/../../runner-images/job-started.sh"
    assert refusals(base, commit) == {path: "has a part or a character in its name that no recipe needs"}


def test_a_commit_without_a_common_ancestor_is_compared_with_the_branch(base: Repository) -> None:
    base.git("checkout", "-q", "--orphan", "theirs")
    base.write("README.md", None)
    found = refusals(base, offered(base))
    assert list(found) == ["README.md"]


def test_a_commit_of_very_many_files_is_refused(base: Repository) -> None:
    commit = forked(base, {f".flox/pkgs/lib/{number}.nix": "1\n" for number in range(301)})
    assert refusals(base, commit) == {"main": "changes 301 files; a build of a fork takes at most 300"}


@pytest.mark.parametrize(
    ("sources", "taken"),
    [
        (["src/**", "setup.py"], {"src/a/b.py", "setup.py", "ci/build.sh"}),
        ([], {"src/a/b.py", "setup.py", "ci/build.sh", "README.md"}),
    ],
    ids=["declared", "everything"],
)
def test_without_recipes_the_declared_sources_are_taken(base: Repository, sources: list[str], taken: set[str]) -> None:
    command = {"build": "ci/build.sh", "files": ["dist/*.whl"], "publish": "true", "install": "pip install x"} | (
        {"sources": sources} if sources else {}
    )
    packages = {"wheel": {"command": command}}
    row = {"cuda": "12.8", "versions": {"wheel": "1.0"}}
    made = small(runners=RUNNERS, packages=packages, branches={"main": row}, matrix=MATRIX, backend="command")
    spec = parse_spec(json.dumps(made).encode(), shown=".github/ci-matrix.yaml")
    paths = {"src/a/b.py", "setup.py", "ci/build.sh", "README.md", ".github/workflows/new.yml", ".githooks/x"}
    commit = forked(base, dict.fromkeys(paths, "edited\n"))
    with pytest.raises(InputError) as raised:
        fork_tree(Git(base.root), spec, "main", base.git("rev-parse", "main"), commit)
    assert paths - {one.place.file for one in raised.value.findings} == taken


# The commands of the workflow.

Choose = Callable[..., dict[str, Any]]


@pytest.fixture
def choose(base: Repository, github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Choose:
    """The outputs of `choose --fork` for a comment on a fork's pull request at `head`."""
    github.roles |= {"a-maintainer": (42, "maintain"), "a-stranger": (43, "read")}
    for name, value in {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GITHUB_APP_ID", raising=False)

    def choosing(head: str, body: str = "", *, login: str = "a-maintainer", paused: str = "") -> dict[str, Any]:
        number = github.add_request(head)
        user = {"login": login, "id": github.roles[login][0], "type": "User"}
        issue, comment = {"number": number, "pull_request": {"url": "u"}}, {"body": body or f"/build {head}"}
        event = {"action": "created", "issue": issue, "comment": comment | {"user": user}}
        (tmp_path / "event.json").write_text(json.dumps(event), "utf-8")
        (tmp_path / "output").write_text("", "utf-8")
        variables = {"EVENT_NAME": "issue_comment", "EVENT_PATH": str(tmp_path / "event.json")}
        for name, value in {**variables, "OUTPUT": str(tmp_path / "output")}.items():
            monkeypatch.setenv(f"GITHUB_{name}", value)
        monkeypatch.setenv("CI_PAUSED", paused)
        assert run(COMPILE, ["choose", "--fork", "--root", str(base.root)]) == 0
        found = dict(line.split("=", 1) for line in (tmp_path / "output").read_text("utf-8").splitlines())
        request = json.loads(found["request"] or "{}")
        return {"commit": found["commit"], "request": request, "matrix": json.loads(found["matrix"])}

    return choosing


def test_a_maintainers_comment_builds_what_the_commit_rebuilds_on_machines_for_untrusted_code(
    base: Repository, choose: Choose
) -> None:
    commit = forked(base, {OWN: "{ }: 1\n"})
    found = choose(commit)
    assert found["commit"] == base.git("rev-parse", "main")
    (leg,) = found["matrix"]
    assert leg["title"] == f"main {CPU}"
    assert json.loads(leg["on"]) == RUNNERS["for-forks"]["runs-on"]
    assert (leg["branch"], leg["fork"], leg["tests"]) == ("main", commit, ["cpu-test"])
    assert leg["built"] == leg["chosen"] == " ".join(REBUILT)
    assert found["request"]["cells"] == [
        {"title": f"main {CPU}", "pool": "for-forks", "variants": REBUILT, "tests": ["cpu-test"]}
    ]


def test_every_job_checks_out_the_tree_that_was_planned_and_no_other(
    base: Repository, choose: Choose, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = forked(base, {OWN: "{ }: 1\n"})
    (leg,) = choose(commit)["matrix"]
    machine = tmp_path / "machine"
    subprocess.run(["git", "clone", "-q", "--branch", "main", tmp_path / "remote", machine], check=True)
    words = ["checkout", "--branch", "main", "--root", str(machine), "--fork", commit, "--onto"]
    assert run(RUNNER, [*words, leg["onto"]]) == 0
    assert (machine / OWN).read_text("utf-8") == "{ }: 1\n"
    assert (machine / ".github/ci-matrix.yaml").read_text("utf-8").strip() == SPEC
    found = [Git(machine).resolve("HEAD^"), Git(machine).write_tree("HEAD", {})]
    assert "..".join(found) == leg["onto"]
    subprocess.run(["git", "-C", machine, "checkout", "-q", "main"], check=True)
    capsys.readouterr()
    assert run(RUNNER, [*words, f"{leg['onto'].partition('..')[0]}..{'0' * 40}"]) == 2
    assert "the run was planned with" in capsys.readouterr().err
    assert run(RUNNER, [*words[:-2], "main", "--onto", leg["onto"]]) == 2
    assert "is not the whole hash of a commit" in capsys.readouterr().err


def test_a_machine_refuses_again_what_the_selection_would_have_refused(
    base: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [".githooks/pre-commit", ".github/ci-matrix.yaml", ".github/workflows/cell.yml"]
    commit = forked(base, dict.fromkeys(paths, "edited\n"))
    onto = f"{base.git('rev-parse', 'main')}..{'0' * 40}"
    words = ["checkout", "--branch", "main", "--root", str(base.root), "--fork", commit, "--onto", onto]
    assert run(RUNNER, words) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in said] == paths
    assert base.git("rev-parse", "HEAD") == base.git("rev-parse", "main")


REACHES_NOTHING = [
    ".github/workflows/cell.yml",
    ".github/actions/setup-ci-compiler/action.yml",
    ".githooks/pre-commit",
    ".github/ci-matrix.yaml",
]


@pytest.mark.parametrize("path", REACHES_NOTHING)
def test_a_commit_that_edits_what_decides_about_machines_has_no_job(
    base: Repository, choose: Choose, path: str
) -> None:
    found = choose(forked(base, {path: "edited\n", OWN: "{ }: 1\n"}))
    assert found["matrix"] == []
    (line,) = found["request"]["refused"]
    assert line.startswith(f"{path}: ")


def test_long_names_leave_room_for_the_other_reasons(base: Repository, choose: Choose) -> None:
    folder = ".flox/pkgs/" + "/".join("\x01" * 200 for _ in range(15))
    found = choose(forked(base, {f"{folder}/{number}.nix": "1\n" for number in range(25)}))
    assert len(found["request"]["refused"]) == 21
    assert len(json.dumps(found["request"])) < 50_000


def test_a_strangers_comment_starts_nothing_and_gets_no_answer(base: Repository, choose: Choose) -> None:
    found = choose(forked(base, {OWN: "{ }: 1\n"}), login="a-stranger")
    assert (found["matrix"], found["request"]) == ([], {})


def test_a_push_after_the_comment_was_written_is_refused(base: Repository, choose: Choose) -> None:
    commit = forked(base, {OWN: "{ }: 1\n"})
    found = choose(commit, f"/build {base.git('rev-parse', 'main')}")
    assert found["matrix"] == []
    assert "read what changed first" in found["request"]["refused"][0]


def test_a_commit_that_cannot_be_fetched_is_refused(choose: Choose) -> None:
    found = choose("f" * 40)
    assert found["matrix"] == []
    assert found["request"]["refused"] == [
        "the commit cannot be fetched without a credential, as from a private repository"
    ]


def test_a_paused_pool_builds_nothing_and_the_comment_says_so(base: Repository, choose: Choose) -> None:
    found = choose(forked(base, {OWN: "{ }: 1\n"}), paused="POOL:for-forks")
    assert found["matrix"] == []
    assert found["request"]["left"] == {"builds are paused (`ci-compile resume`)": 2}
