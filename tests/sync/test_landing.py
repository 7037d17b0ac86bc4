"""A pull request on the default branch builds what it changes on every branch, from the tree that sync commits."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.selection import Rebuilt
from ci_compiler.runner.jobs.reproduce import commands
from ci_compiler.runner.targets import find
from ci_compiler.spec.build import parse_spec
from ci_compiler.stages import BUILD
from ci_compiler.sync.branches import WRITTEN
from ci_compiler.sync.compiled import compile_files
from ci_compiler.sync.landing import branch_plans, check_out, landings, rebuilt_elsewhere, source_branch, tips
from ci_compiler.units import markdown_text
from ci_compiler.workflows import pull_request
from ci_compiler.workflows.artifacts import artifact_name
from ci_compiler.workflows.common import CELL
from tests.adoption.test_audit import CPU, N90, X90
from tests.merges import merge_request
from tests.recipes.test_affected import Repository

from .test_branches import PKGS, SPEC, remote, repository
from .test_carried import BUMPED, FILE, synced
from .test_events import PLAN, A, B, document, history, recipe

__all__ = ["remote", "repository", "synced"]

OTHER = "cuda-13_0"
ALL_CELLS = "pull-request: {cells: 40}\n"


def test_a_branch_is_planned_with_its_recipes_and_what_all_carry(tmp_path: Path) -> None:
    made, carried = history(tmp_path), {FILE: document(), "nix/x": "1\n"}
    git = Git(tmp_path)
    heads = tips(git, PLAN.spec)
    assert heads == dict.fromkeys(["main", "next"], made.git("rev-parse", "HEAD"))
    plans = branch_plans(git, PLAN, carried, heads, adopt=True)
    assert [one.branch for one in plans] == ["main", "next"]
    for one in plans:
        assert carried.items() <= one.files.items()
        assert compile_files(PLAN).items() <= one.files.items()
        assert {*one.taken} == {recipe(A), recipe(B)}
        assert one.changes["nix/x"] == "1\n"
    with pytest.raises(InputError, match="--adopt"):
        branch_plans(git, PLAN, carried, heads, adopt=False)
    landed = landings(git, PLAN, carried, heads)
    assert (git.heads(), {*landed}) == (heads, {"main", "next"})
    assert made.git("show", f"{landed['next'].tree}:nix/x") == "1"
    assert str(landed["next"]) == f"{heads['next']}..{landed['next'].tree}"
    found = rebuilt_elsewhere(git, PLAN, carried, {"next": heads["next"]})
    assert found == {"next": Rebuilt([A, B], str(landed["next"]))}


def test_the_tips_are_those_last_fetched(tmp_path: Path) -> None:
    made = history(tmp_path)
    old = made.git("rev-parse", "HEAD")
    made.commit()
    made.git("update-ref", "refs/remotes/origin/main", old)
    made.git("update-ref", "refs/remotes/origin/later", old)
    made.git("branch", "topic")
    assert tips(Git(tmp_path), PLAN.spec) == dict.fromkeys(["main", "next", "later"], old)


def test_a_commit_comes_from_the_branch_that_lacks_the_fewest_of_its_commits(tmp_path: Path) -> None:
    made = history(tmp_path)
    git, first = Git(tmp_path), made.git("rev-parse", "HEAD")
    later = made.commit()
    heads = {"next": later, "main": first}
    assert source_branch(git, PLAN.spec, heads, later) == "next"
    assert source_branch(git, PLAN.spec, heads, first) == "main", "both have it: the first in the spec"
    assert source_branch(git, PLAN.spec, {}, first) == ""


def test_what_sync_would_commit_is_checked_out_the_same_each_time(tmp_path: Path) -> None:
    made, carried = history(tmp_path), {FILE: document()}
    git, tip = Git(tmp_path), made.git("rev-parse", "next")
    landing = landings(git, PLAN, carried, {"next": tip})["next"]
    commit = check_out(git, PLAN, carried, "next", str(landing))
    assert made.git("rev-parse", "HEAD") == commit
    assert (git.parents(commit), git.tree_of(commit)) == ([tip], landing.tree)
    assert git.message(commit).strip() == f"Compile for next\n\n{WRITTEN}"
    assert made.git("log", "-1", "--format=%at %ct", commit).split() == [made.git("log", "-1", "--format=%ct", tip)] * 2
    assert check_out(git, PLAN, carried, "next", "next") == commit
    other = "e" * 40
    with pytest.raises(InputError) as raised:
        check_out(git, PLAN, carried, "next", f"{tip}..{other}")
    assert str(raised.value) == (
        f"{FILE}: compiles to the tree {landing.tree} on next here, and to {other} where the run was planned; install "
        "the version of ci-compiler that the spec's `toolkit` names [other-tree]"
    )


class Runner:
    """A job's checkout of a commit with the history of all branches, as actions/checkout makes it."""

    def __init__(self, origin: Path, root: Path, commit: str) -> None:
        self.root = root
        subprocess.run(["git", "init", "-q", root], check=True)
        self.git("remote", "add", "origin", str(origin))
        self.git("fetch", "-q", "origin")
        self.git("checkout", "-q", "--detach", commit)

    def git(self, *words: str) -> str:
        command = ["git", "-C", str(self.root), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def choose(self, event: str, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
        """The outputs of a select job, by name, and its summary."""
        files = {name: self.root.with_suffix(f".{name}") for name in ("event", "output", "summary")}
        files["event"].write_text(json.dumps(payload), "utf-8")
        for name in ("output", "summary"):
            files[name].write_text("", "utf-8")
        monkeypatch.setenv("GITHUB_EVENT_NAME", event)
        monkeypatch.setenv("GITHUB_EVENT_PATH", str(files["event"]))
        monkeypatch.setenv("GITHUB_OUTPUT", str(files["output"]))
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(files["summary"]))
        assert run(COMPILE, ["choose", *words, "--root", str(self.root)]) == 0
        lines = dict(line.split("=", 1) for line in files["output"].read_text("utf-8").splitlines())
        return {
            key: value if key in {"commit", "onto", "pausable"} else json.loads(value) for key, value in lines.items()
        }, files["summary"].read_text("utf-8")

    def checkout(self, branch: str, onto: str) -> int:
        return run(RUNNER, ["checkout", "--branch", branch, "--onto", onto, "--root", str(self.root)])


NewRunner = Callable[[str], Runner]


@pytest.fixture
def new_runner(synced: Repository, remote: Path, tmp_path: Path) -> NewRunner:
    synced.git("push", "-q", "origin", "main", OTHER)
    return lambda commit: Runner(remote, tmp_path / f"runner-{commit[:8]}", commit)


def request(repository: Repository, spec: str) -> str:
    """A branch `bump` from `main` with another spec, pushed as a maintainer does; returns its commit."""
    repository.git("checkout", "-q", "-b", "bump", "main")
    repository.write(FILE, spec)
    for words in (["--branch", "main"], ["recipes", "--branch", "main"]):
        assert repository.ci(*words) == 0
    commit = repository.commit()
    repository.git("push", "-q", "origin", "bump")
    return commit


def payload(runner: Runner, base: str = "main") -> dict[str, Any]:
    """The event of a request for the commit of the runner, which then has its merge."""
    return merge_request(runner.git, runner.git("rev-parse", "HEAD"), f"origin/{base}", ref="bump")


def of_merge(repository: Repository) -> str:
    """The tree that sync commits to the other branch once the request is merged."""
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "Merge", "bump")
    assert repository.ci("sync") == 0
    return repository.git("rev-parse", f"{OTHER}^{{tree}}")


def test_a_request_that_changes_another_branch_builds_it_from_the_tree_that_sync_commits(
    synced: Repository, new_runner: NewRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = new_runner(request(synced, BUMPED + ALL_CELLS))
    outputs, summary = runner.choose("pull_request", payload(runner), monkeypatch, "--pull-request")
    cells = [cell for cell in plan(parse_spec(BUMPED.encode(), shown=FILE)).judged.cells if cell.branch == OTHER]
    assert outputs["chosen"] == {OTHER: [variant.name for cell in cells for variant in cell.variants]}
    legs = outputs["matrix"]
    assert [(leg["branch"], leg["cell"]) for leg in legs] == [(OTHER, cell.suffix) for cell in cells]
    assert [json.loads(leg["chosen"]) for leg in legs] == [[v.name for v in cell.variants] for cell in cells]
    (onto,) = {leg["onto"] for leg in legs}
    tip = synced.git("rev-parse", OTHER)
    row = f"| {markdown_text(OTHER)} | 10 | 10 | what `ci-compile sync` would commit on {tip[:12]} |"
    assert row in summary.splitlines()
    assert runner.checkout(OTHER, onto) == 0
    assert runner.git("rev-parse", "HEAD^") == tip
    assert runner.git("status", "--porcelain") == ""
    assert "2.10.1" in (runner.root / PKGS / f"{N90}.nix").read_text("utf-8")
    assert not (runner.root / PKGS / f"{X90}.nix").exists()
    assert runner.git("rev-parse", "HEAD^{tree}") == of_merge(synced) == onto.partition("..")[2]


def test_every_job_checks_out_the_same_commit(
    synced: Repository, new_runner: NewRunner, remote: Path, tmp_path: Path
) -> None:
    first = new_runner(request(synced, BUMPED))
    second = Runner(remote, tmp_path / "second", first.git("rev-parse", "HEAD"))
    onto = synced.git("rev-parse", OTHER)
    assert [one.checkout(OTHER, onto) for one in (first, second)] == [0, 0]
    assert first.git("rev-parse", "HEAD") == second.git("rev-parse", "HEAD")


def test_the_commands_of_a_failed_job_check_out_the_same_commit_elsewhere(
    synced: Repository, new_runner: NewRunner, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = new_runner(request(synced, BUMPED))
    elsewhere = Runner(remote, tmp_path / "elsewhere", synced.git("rev-parse", "main"))
    monkeypatch.setenv("GITHUB_ENV", str(tmp_path / "env"))
    assert job.checkout(OTHER, synced.git("rev-parse", OTHER)) == 0
    name, _, value = (tmp_path / "env").read_text("utf-8").strip().partition("=")
    monkeypatch.setenv(name, value)
    spec = parse_spec(BUMPED.encode(), shown=FILE)
    variant = next(cell.variants[0].name for cell in plan(spec).judged.cells if cell.branch == OTHER)
    head = job.git("rev-parse", "HEAD")
    lines = [shlex.split(line) for line in commands(spec, find(spec, variant, OTHER), head)]
    assert [line[:2] for line in lines[3:]] == [["ci-runner", "checkout"], ["ci-runner", "build"]]
    for _, *words in lines[:3]:
        elsewhere.git(*words)
    assert run(RUNNER, [*lines[3][1:], "--root", str(elsewhere.root)]) == 0
    assert elsewhere.git("rev-parse", "HEAD") == head


def test_a_change_of_all_branches_builds_each_of_them_and_names_with_the_same_cpu_variant_stay_apart(
    synced: Repository, new_runner: NewRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = BUMPED.replace("title: PyTorch", "title: Torch") + "pull-request: {cells: 6}\n"
    runner = new_runner(request(synced, spec))
    outputs, summary = runner.choose("pull_request", payload(runner), monkeypatch, "--pull-request")
    assert list(outputs["chosen"]) == ["main", OTHER]
    assert {leg["branch"]: bool(leg["onto"]) for leg in outputs["matrix"]} == {"main": False, OTHER: True}
    assert len(outputs["matrix"]) <= 6
    decided = plan(parse_spec(spec.encode(), shown=FILE))
    jobs = [(leg["branch"], name) for leg in outputs["matrix"] for name in json.loads(leg["chosen"])]
    assert len({artifact_name(BUILD, name, branch) for branch, name in jobs}) == len(jobs)
    shards = {f"{shard.name}.yml": shard.branch for shard in decided.shards}
    commands = [shlex.split(line) for line in summary.splitlines() if line.startswith("gh workflow run ")]
    assert {shards[words[3]] for words in commands} == {"main", OTHER}
    assert {tuple(words[4:6]) for words in commands} == {("--ref", "bump")}
    assert len({words[3] for words in commands}) == len(commands)


def test_a_printed_command_builds_the_code_of_the_request_on_the_branch_of_its_shard(
    synced: Repository, new_runner: NewRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = new_runner(request(synced, BUMPED))
    event = {"ref": "refs/heads/bump", "inputs": {"variant": "all", "publish": "false"}}
    outputs, _ = runner.choose("workflow_dispatch", event, monkeypatch, "--shard", "build-cuda-13_0-sm90")
    assert N90 in outputs["chosen"]
    own, _ = runner.choose("workflow_dispatch", event, monkeypatch, "--shard", "build-main-sm90")
    assert own["onto"] == ""
    assert runner.checkout(OTHER, outputs["onto"]) == 0
    assert runner.git("rev-parse", "HEAD^{tree}") == of_merge(synced)


def test_a_dispatch_on_a_branch_of_the_spec_or_on_code_for_its_branch_builds_the_commit(
    synced: Repository, new_runner: NewRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced.git("checkout", "-q", "-b", "fix", OTHER)
    synced.append(f"{PKGS}/{N90}.nix")
    commit = synced.commit()
    synced.git("push", "-q", "origin", "fix")
    runner = new_runner(commit)
    for ref in ("fix", OTHER):
        event = {"ref": f"refs/heads/{ref}", "inputs": {"variant": N90}}
        outputs, _ = runner.choose("workflow_dispatch", event, monkeypatch, "--shard", "build-cuda-13_0-sm90")
        assert (outputs["onto"], outputs["commit"]) == ("", commit)


def test_a_request_that_changes_no_carried_file_builds_only_its_own_branch(
    synced: Repository, new_runner: NewRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced.git("checkout", "-q", "-b", "bump", "main")
    synced.append(f"{PKGS}/{X90}.nix")
    commit = synced.commit()
    synced.git("push", "-q", "origin", "bump")
    runner = new_runner(commit)
    outputs, _ = runner.choose("pull_request", payload(runner), monkeypatch, "--pull-request")
    assert list(outputs["chosen"]) == ["main"]


def test_a_change_of_more_files_than_path_filters_see_is_said_before_it_is_merged(
    synced: Repository, new_runner: NewRunner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    synced.git("checkout", "-q", "-b", "bump", "main")
    for number in range(300):
        synced.write(f"notes/{number}", "new")
    commit = synced.commit()
    synced.git("push", "-q", "origin", "bump")
    said = "the change changes 301 files, and GitHub's path filters see 300: "
    runner = new_runner(commit)
    _, summary = runner.choose("pull_request", payload(runner), monkeypatch, "--pull-request")
    assert "path filters" not in summary
    capsys.readouterr()
    assert synced.ci("diff", "main") == 0
    assert "path filters" not in capsys.readouterr().out
    synced.write("notes/300", "new")
    commit = synced.commit()
    synced.git("push", "-q", "origin", "bump")
    runner.git("fetch", "-q", "origin")
    runner.git("checkout", "-q", commit)
    _, summary = runner.choose("pull_request", payload(runner), monkeypatch, "--pull-request")
    assert said in summary.replace("\\", "")
    capsys.readouterr()
    assert synced.ci("diff", "main") == 0
    assert said in capsys.readouterr().out.replace("\\", "")
    assert synced.ci("diff", "main", "--json") == 0
    assert said in capsys.readouterr().err


def test_a_request_into_another_branch_builds_that_branch_alone(
    synced: Repository, new_runner: NewRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced.git("checkout", "-q", "-b", "bump", OTHER)
    synced.append(f"{PKGS}/{N90}.nix")
    commit = synced.commit()
    synced.git("push", "-q", "origin", "bump")
    runner = new_runner(commit)
    outputs, _ = runner.choose("pull_request", payload(runner, OTHER), monkeypatch, "--pull-request")
    assert [*outputs["chosen"]] == [OTHER]
    assert {leg["onto"] for leg in outputs["matrix"]} == {""}


def test_a_branch_that_does_not_exist_yet_and_edits_made_elsewhere_are_remarked_on(
    synced: Repository, new_runner: NewRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced.git("checkout", "-qf", OTHER)
    synced.write(FILE, SPEC.replace("owner: my-org", "owner: our-org"))
    synced.commit()
    synced.git("push", "-q", "origin", OTHER)
    synced.git("checkout", "-qf", "main")
    versions, pin = "{pytorch: 2.8.0, torchvision: 0.23.0}", "fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3"
    new = f'  new: {{cuda: "12.8", nixpkgs: {pin}, publish: false, versions: {versions}}}\npackages:'
    runner = new_runner(request(synced, BUMPED.replace("packages:", new, 1)))
    outputs, summary = runner.choose("pull_request", payload(runner), monkeypatch, "--pull-request")
    assert list(outputs["chosen"]) == [OTHER]
    assert "new does not exist here" in summary
    assert "changes owner, which main does not have" in summary


def test_another_tree_or_a_changed_checkout_is_refused(
    synced: Repository, new_runner: NewRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    runner, tip = new_runner(request(synced, BUMPED)), synced.git("rev-parse", OTHER)
    head = runner.git("rev-parse", "HEAD")
    assert runner.checkout(OTHER, f"{tip}..{'1' * 40}") == 2
    err = capsys.readouterr().err
    assert f"{FILE}: compiles to the tree " in err
    assert "[other-tree]" in err
    (runner.root / "README.md").write_text("changed\n", "utf-8")
    assert runner.checkout(OTHER, tip) == 1
    assert "README.md: differs from the commit" in capsys.readouterr().err
    assert runner.git("rev-parse", "HEAD") == head


def test_a_template_of_the_default_branch_changes_every_branch(
    synced: Repository, new_runner: NewRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = "pytorch: {attribute: torch, recipes: {'*-cpu-*': template}, template: ci/torch.nix, title: PyTorch}"
    spec = SPEC.replace("pytorch: {attribute: torch, title: PyTorch}", template)
    synced.write(FILE, spec)
    synced.write("ci/torch.nix", '{ }: builtins.toFile "@name@" "1"\n')
    for words in (["--branch", "main"], ["recipes", "--branch", "main"]):
        assert synced.ci(*words) == 0
    synced.commit()
    assert synced.ci("sync") == 0
    synced.git("checkout", "-qf", "main")
    synced.git("push", "-q", "origin", "main", OTHER)
    synced.write("ci/torch.nix", '{ }: builtins.toFile "@name@" "2"\n')
    runner = new_runner(request(synced, spec))
    outputs, _ = runner.choose("pull_request", payload(runner), monkeypatch, "--pull-request")
    assert list(outputs["chosen"]) == ["main", OTHER]
    assert {name.split("-")[2] for names in outputs["chosen"].values() for name in names} == {"cpu"}


def test_no_two_branches_share_the_name_of_an_artifact() -> None:
    names = {artifact_name(BUILD, CPU, branch) for branch in ("a/b", "a-b", "a|b", "a<b", 'a"b', "a>b")}
    assert len(names) == 6
    assert not any(set(name) & set('/"<>|') for name in names)


def test_the_name_of_a_job_shows_its_branch() -> None:
    jobs = pull_request.workflow(parse_spec(SPEC.encode(), shown=FILE), {CELL}, ()).jobs
    assert jobs["cells"].node()["name"] == "${{ matrix.branch }} ${{ matrix.cell }}"
