"""What the repository says about an event: the variants that changed, on which branch, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.codes import Code
from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.plan.limits import Limit
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.selection import Facts, GitHubEvent, Question, Rebuilt, question
from ci_compiler.spec.build import parse_spec
from ci_compiler.sync.events import (
    EventAnswer,
    changed_since,
    dispatched_onto,
    facts_of_push,
    facts_of_request,
    released_tag,
    request_base,
    unseen_files,
)
from tests.checkers import require
from tests.merges import merge_request
from tests.recipes.test_affected import Repository
from tests.repositories import copy_once
from tests.specs import HASH, UNKNOWN_PIN, small

FILE = ".github/ci-matrix.yaml"
BRANCH = {"cuda": "12.8", "nixpkgs": UNKNOWN_PIN, "nixpkgs-hash": HASH, "versions": {"a": "1.0", "b": "1.0"}}
MATRIX = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}}}
A, B = (f"{name}-python313-cpu-avx2" for name in "ab")
GONE = "d" * 40


def document(next_a: str = "1.0", **changes: Any) -> str:
    """The spec, with another version of `a` on the branch `next`."""
    other = BRANCH | {"publish": False}
    branches = {"main": BRANCH, "next": other | {"versions": {"a": next_a, "b": "1.0"}}, "later": other}
    return json.dumps(small(branches=branches, packages={"a": {}, "b": {}}, matrix=MATRIX, **changes))


def decided_by(text: str) -> Plan:
    return plan(parse_spec(text.encode(), shown=FILE))


PLAN = decided_by(document())


def recipe(name: str) -> str:
    return f".flox/pkgs/{name}.nix"


def history(folder: Path) -> Repository:
    """A repository with the branches `main` and `next` of the spec at one commit; there is no branch `later`."""
    require("git")
    copy_once(one_commit, folder)
    return Repository(folder)


def one_commit(folder: Path) -> None:
    repository = Repository(folder)
    repository.write(FILE, document())
    for name in (A, B):
        repository.write(recipe(name), "{ }: null\n")
    repository.commit()
    repository.git("branch", "next")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return history(tmp_path / "work")


def edited(repository: Repository, **files: str) -> str:
    """A commit that edits the recipes `a` and `b`, or other files."""
    for name, text in files.items():
        repository.write({"a": recipe(A), "b": recipe(B)}.get(name, name), text)
    return repository.commit()


def test_a_push_rebuilds_what_changed_since_its_base_and_each_other_commit(repository: Repository) -> None:
    git, first = Git(repository.root), repository.git("rev-parse", "HEAD")
    assert facts_of_push(git, PLAN, Question("main")) == EventAnswer(Facts())
    second = edited(repository, a="1\n")
    edited(repository, b="1\n")
    for asked, names in (
        (Question("main", base=first), [A, B]),
        (Question("main", base=second), [B]),
        (Question("main", base="HEAD"), []),
        (Question("main", since=(second,)), [B]),
        (Question("main", base=second, since=(first,)), [B, A]),
        (Question("next", since=("HEAD", first)), [A, B]),
    ):
        assert facts_of_push(git, PLAN, asked) == EventAnswer(Facts({asked.branch: Rebuilt(names)}), [])
    assert changed_since(git, PLAN, Question("main", base=first), second) == ([A], "")


def test_a_base_counts_from_where_the_history_parted_and_another_commit_as_it_is(repository: Repository) -> None:
    git = Git(repository.root)
    repository.git("checkout", "-qb", "other")
    aside = edited(repository, b="1\n")
    repository.git("checkout", "-q", "main")
    edited(repository, a="1\n")
    assert changed_since(git, PLAN, Question("main", base=aside)) == ([A], "")
    assert changed_since(git, PLAN, Question("main", since=(aside,))) == ([A, B], "")


@pytest.mark.parametrize("asked", [Question("next", base=GONE), Question("next", base="HEAD", since=(GONE,))])
def test_everything_changed_since_a_commit_that_is_gone(repository: Repository, asked: Question) -> None:
    git = Git(repository.root)
    remark = f"the commit {GONE} is not in the history; everything counts as changed"
    assert changed_since(git, PLAN, asked) == ([A, B], remark)
    if asked.since:
        answer = facts_of_push(git, PLAN, asked)
        assert answer == EventAnswer(Facts({"next": Rebuilt([A, B])}), [remark])


def test_a_change_of_more_files_than_github_sees_is_remarked(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    git, first = Git(repository.root), repository.git("rev-parse", "HEAD")
    edited(repository, a="1\n", b="1\n")
    assert unseen_files(git, first) == ""
    monkeypatch.setattr("ci_compiler.plan.limits.limit", lambda _: Limit(gate=1, limit=1))
    said = (
        "the change changes 2 files, and GitHub's path filters see 1: a push of it may not start every shard; "
        "`ci-compile dispatch` starts the others"
    )
    assert unseen_files(git, first) == said
    assert facts_of_push(git, PLAN, Question("main", base=first)).remarks == [said]
    assert facts_of_push(git, PLAN, Question("main", since=(first,))).remarks == []


def carried(text: str) -> dict[str, str]:
    return {FILE: text}


def test_a_request_is_compared_with_what_its_merge_is_on(repository: Repository) -> None:
    """The event names a base that is older: what others merged since then is no part of the request."""
    git = Git(repository.root)
    repository.git("checkout", "-qb", "topic")
    topic = edited(repository, a="1\n")
    repository.git("checkout", "-q", "main")
    edited(repository, b="1\n")
    tip = edited(repository, **{"README.md": "others"})
    event = GitHubEvent("pull_request", merge_request(repository.git, topic))
    assert request_base(git, event) == tip != event.payload["pull_request"]["base"]["sha"]
    asked = question(PLAN, event, base=request_base(git, event))
    assert facts_of_request(git, PLAN, asked, carried(document())).facts == Facts({"main": Rebuilt([A])})
    repository.git("checkout", "-q", "-B", "main", topic)  # the head is the first parent
    repository.git("merge", "-q", "--no-ff", "-m", "x", tip)
    assert request_base(git, event) == tip


def test_a_merge_group_names_its_own_base(repository: Repository) -> None:
    refs = {"base_ref": "refs/heads/main", "head_ref": "refs/heads/gh-readonly-queue/main/pr-7-abc"}
    event = GitHubEvent("merge_group", {"merge_group": {**refs, "base_sha": GONE}})
    assert request_base(Git(repository.root), event) == GONE


def test_without_the_merge_of_the_request_nothing_is_compared(repository: Repository, tmp_path: Path) -> None:
    repository.git("checkout", "-qb", "topic")
    topic = edited(repository, a="1\n")
    event = GitHubEvent("pull_request", merge_request(repository.git, topic))
    shallow = tmp_path / "shallow"
    repository.git("branch", "merge")
    repository.git("clone", "-q", "--depth=1", "--branch=merge", f"file://{repository.root}", str(shallow))
    with pytest.raises(InputError, match=f"no merge of {topic} into main; the clone is shallow: .*fetch-depth"):
        request_base(Git(shallow), event)
    for commit in (topic, "merge~1"):
        repository.git("checkout", "-q", commit)
        with pytest.raises(InputError, match=f"^event: what is checked out is no merge of {topic} into main"):
            request_base(Git(repository.root), event)
    pushed = edited(repository, b="1\n")  # the event is of an earlier push
    merge_request(repository.git, pushed)
    with pytest.raises(InputError, match="is no merge of"):
        request_base(Git(repository.root), event)


def test_a_request_counts_where_it_is_merged(repository: Repository) -> None:
    git, first = Git(repository.root), repository.git("rev-parse", "HEAD")
    assert facts_of_request(git, PLAN, Question("main"), carried(document())) == EventAnswer(Facts())
    edited(repository, a="1\n")
    expected = EventAnswer(Facts({"main": Rebuilt([A])}), [])
    assert facts_of_request(git, PLAN, Question("main", base=first), carried(document())) == expected
    text = document("2.0")
    edited(repository, **{FILE: text})
    found = facts_of_request(git, decided_by(text), Question("next", base=first), carried(text))
    assert {*found.facts.rebuilt} == {"next"}, "a carried file reaches others from the default branch alone"


def test_a_request_that_edits_the_spec_counts_on_other_branches_as_well(repository: Repository) -> None:
    git, first = Git(repository.root), repository.git("rev-parse", "HEAD")
    text = document("2.0")
    edited(repository, b="1\n", **{FILE: text})
    answer = facts_of_request(git, decided_by(text), Question("main", base=first), carried(text))
    assert {*answer.facts.rebuilt} == {"main", "next"}
    assert answer.facts.rebuilt["main"] == Rebuilt([B])
    elsewhere = answer.facts.rebuilt["next"]
    assert A in elsewhere.variants
    assert elsewhere.onto.startswith(f"{first}..")
    assert answer.remarks == [
        "later does not exist here, so that nothing is built for it; create it before `ci-compile sync`"
    ]


def test_a_request_is_without_what_another_branch_edited(repository: Repository) -> None:
    git, first = Git(repository.root), repository.git("rev-parse", "HEAD")
    repository.git("checkout", "-q", "next")
    edited(repository, **{FILE: document("3.0")})
    repository.git("branch", "later")
    repository.git("checkout", "-q", "main")
    text = document("2.0")
    edited(repository, **{FILE: text})
    answer = facts_of_request(git, decided_by(text), Question("main", base=first), carried(text))
    assert answer.remarks == [
        f"{branch}:{FILE} changes branches.next.versions.a, which main does not have; the builds of {branch} are "
        "without it, and `ci-compile sync` will ask what becomes of it"
        for branch in ("next", "later")
    ]


def test_dispatched_code_of_a_branch_that_is_not_of_the_spec_lands_on_another(repository: Repository) -> None:
    git, first = Git(repository.root), repository.git("rev-parse", "HEAD")

    def onto(ref: str = "topic", branch: str = "next", event: str = "workflow_dispatch") -> str:
        payload = {"ref": f"refs/heads/{ref}"} if ref else {}
        return dispatched_onto(git, PLAN, GitHubEvent(event, payload), branch, carried(document()))

    repository.git("checkout", "-qb", "topic")
    edited(repository, a="1\n")
    parent, _, tree = onto().partition("..")
    assert parent == first
    assert Git(repository.root).tree(tree)[FILE]
    assert onto("").startswith(f"{first}..")
    assert [onto("main"), onto(event="push"), onto(branch="main"), onto(branch="later")] == ["", "", "", ""]


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        (["v1.0"], "v1.0"),
        (["a", "v1.0"], "v1.0"),
        (["r-1"], "r-1"),
        ([], "has no tag"),
        (["a", "b"], "has the tags a, b"),
    ],
)
def test_a_release_has_a_tag_of_releases(repository: Repository, tags: list[str], found: str) -> None:
    spec = decided_by(document(profiles={"release": {"tags": ["v*", "r-*"]}})).spec
    for tag in tags:
        repository.git("tag", tag)
    if not found.startswith("has"):
        assert released_tag(Git(repository.root), spec) == found
        return
    with pytest.raises(InputError) as raised:
        released_tag(Git(repository.root), spec)
    [finding] = raised.value.findings
    assert (finding.place.file, finding.code) == ("event", Code.WRONG_REF)
    assert finding.message == f"a release is built from a commit with a tag such as v* or r-*; this one {found}"
