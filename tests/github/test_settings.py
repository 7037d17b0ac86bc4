"""The settings of a repository: each that is wrong is reported, none that is right, and none that cannot be read."""

from __future__ import annotations

import copy
import json
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.github import settings as settings_module
from ci_compiler.github.reliance import UsedEnvironment, reliance
from ci_compiler.github.settings import Setting, SettingState, settings
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.spec.build import parse_spec
from tests.output import checked

from .description import description
from .state import OWNER, REPOSITORY, TOKEN, Fault, GitHub
from .talk import talk

EXAMPLE = Path(__file__).parents[1] / "examples/good/everything/ci-matrix.yaml"
"""A spec of two branches with runner groups, a cache, `sync`, `watch` and an environment of its own for publishing."""

CHECK = "Pull request verdict"
USERS: dict[str, list[str]] = {"release": ["NIX_CACHE_SIGNING_KEY"], "sync": ["SYNC_APP_ID", "SYNC_APP_PRIVATE_KEY"]}
WRITTEN = Callable[[GitHub], None]


@pytest.fixture(scope="module")
def everything() -> Plan:
    return plan(parse_spec(EXAMPLE.read_bytes(), shown="ci-matrix.yaml"))


def rule(*contexts: str, strict: bool = True) -> dict[str, object]:
    checks = [{"context": context} for context in contexts]
    given = {"required_status_checks": checks, "strict_required_status_checks_policy": strict}
    return {"type": "required_status_checks", "parameters": given}


def environment(*branches: str, protected: bool = False, reviewers: int = 0) -> dict[str, object]:
    policy = {"protected_branches": protected, "custom_branch_policies": not protected}
    who = [{"type": "User", "reviewer": {"id": number}} for number in range(1, reviewers + 1)]
    asked = [{"id": 1, "node_id": "x", "type": "required_reviewers", "prevent_self_review": False, "reviewers": who}]
    rules = asked if reviewers else []
    return {"deployment_branch_policy": policy, "protection_rules": rules, "branches": list(branches)}


def set_up(github: GitHub, decided: Plan) -> None:
    """Everything as the example needs it."""
    github.public = True
    allowed = {"enabled": True, "allowed_actions": "all", "selected_actions_url": "https://x/y"}
    github.settings = {
        "permissions": allowed | {"sha_pinning_required": True},
        "workflow": {"default_workflow_permissions": "read", "can_approve_pull_request_reviews": False},
        "artifact-and-log-retention": {"days": 90, "maximum_allowed_days": 400},
        "fork-pr-contributor-approval": {"approval_policy": "all_external_contributors"},
        "fork-pr-workflows-private-repos": {
            "run_workflows_from_fork_pull_requests": True,
            "send_write_tokens_to_workflows": False,
            "send_secrets_and_variables": False,
            "require_approval_for_fork_pr_workflows": True,
        },
        "selected-actions": {
            "github_owned_allowed": True,
            "verified_allowed": False,
            "patterns_allowed": ["cachix/*"],
        },
    }
    github.branches = {"main", "release/13"}
    github.rules = {"main": [rule("other"), rule(CHECK)], "release/13": [rule(CHECK, "other")]}
    github.environments = {name: environment("main") for name in ("fleet-watch", "github-pages", "sync")}
    github.environments["release"] = environment("main", "release/13")
    github.secret_names = {**USERS, "fleet-watch": ["FLEET_TOKEN"], "secrets": ["UNRELATED"]}
    for name in ("gpu", "spark"):
        github.add_group(name)
    paths = sorted(f"{REPOSITORY}/{one}" for one in reliance(decided).publishers["publish"])
    restricted = {
        "restricted_to_workflows": True,
        "selected_workflows": [*paths, f"{OWNER}/other/x.yml@refs/heads/main"],
    }
    github.groups[github.add_group("publish")] |= restricted


@pytest.fixture
def right(organisation: GitHub, everything: Plan) -> GitHub:
    set_up(organisation, everything)
    return organisation


def found(github: GitHub, decided: Plan, state: SettingState = SettingState.WRONG) -> dict[str, Setting]:
    return {one.name: one for one in settings(talk(github).client, decided) if one.state is state}


def judged(github: GitHub, decided: Plan) -> dict[str, SettingState]:
    """The state of each setting that is not right."""
    every = settings(talk(github).client, decided)
    return {one.name: one.state for one in every if one.state is not SettingState.RIGHT}


def test_what_is_relied_on_is_read_from_the_compiled_workflows(everything: Plan) -> None:
    needs = reliance(everything)
    assert (needs.verdict, needs.branches) == (CHECK, ("main", "release/13"))
    assert needs.environments == {
        "fleet-watch": UsedEnvironment(branches={"main"}, secrets={"FLEET_TOKEN"}),
        "github-pages": UsedEnvironment(branches={"main"}),
        "release": UsedEnvironment(branches={"main", "release/13"}, secrets={"NIX_CACHE_SIGNING_KEY"}),
        "sync": UsedEnvironment(branches={"main"}, secrets={"SYNC_APP_ID", "SYNC_APP_PRIVATE_KEY"}),
    }
    assert not needs.secrets
    assert "cachix/install-nix-action" in needs.names_of_actions()
    assert {one.rpartition("@")[2] for one in needs.publishers["publish"]} == {
        "refs/heads/main",
        "refs/heads/release/13",
    }


def test_another_spec_relies_on_other_settings(stack: Plan) -> None:
    needs = reliance(stack)
    assert "sync" not in needs.environments
    assert needs.environments["publish"].secrets == {"FLOX_FLOXHUB_TOKEN"}
    assert needs.publishers == {}


def test_a_repository_as_it_must_be_has_nothing_wrong(right: GitHub, everything: Plan) -> None:
    states = [one.state for one in settings(talk(right).client, everything)]
    assert set(states) == {SettingState.RIGHT}
    assert len(states) == 22
    assert all(method == "GET" for method, _, _ in right.asked)


def setting(name: str, **values: object) -> WRITTEN:
    return lambda github: github.settings[name].update(values)


def group(name: str, **values: object) -> WRITTEN:
    def change(github: GitHub) -> None:
        next(one for one in github.groups.values() if one["name"] == name).update(values)

    return change


def hide(name: str) -> WRITTEN:
    return lambda github: github.hidden_groups.update(n for n, one in github.groups.items() if one["name"] == name)


def named(place: str, *names: str) -> WRITTEN:
    return lambda github: github.secret_names.update({place: list(names)})


def rules(*of: dict[str, object]) -> WRITTEN:
    return lambda github: github.rules.update({"release/13": list(of)})


def kept(name: str, value: dict[str, object] | None) -> WRITTEN:
    def change(github: GitHub) -> None:
        del github.environments[name]
        if value is not None:
            github.environments[name] = value

    return change


def private(github: GitHub) -> None:
    github.public = False


def both(*changes: WRITTEN) -> WRITTEN:
    return lambda github: [change(github) for change in changes] and None


def selected(**values: object) -> WRITTEN:
    return both(setting("permissions", allowed_actions="selected"), setting("selected-actions", **values))


OPEN = environment("main", "release/13") | {"deployment_branch_policy": None}
FORKS = "fork-pr-workflows-private-repos"
WRONG: list[tuple[str, WRITTEN, str, str]] = [
    (
        "fork pull requests",
        setting("fork-pr-contributor-approval", approval_policy="first_time_contributors"),
        "first",
        "f",
    ),
    (
        "fork pull requests of a private repository",
        both(private, setting(FORKS, send_write_tokens_to_workflows=True)),
        "write_tokens",
        FORKS,
    ),
    ("default rights of GITHUB_TOKEN", setting("workflow", default_workflow_permissions="write"), "write", "/workflow"),
    (
        "pinned actions",
        setting("permissions", sha_pinning_required=False),
        "sha_pinning_required: false",
        "actions/permissions",
    ),
    ("pinned actions", setting("permissions", enabled=False), "enabled: false", '"enabled": true'),
    ("allowed actions", setting("permissions", allowed_actions="local_only"), "local_only", '"selected"'),
    (
        "allowed actions",
        selected(patterns_allowed=["other/*"]),
        "all but cachix/install-nix-action",
        "cachix/install-nix-action@*",
    ),
    (
        "allowed actions",
        setting("permissions", allowed_actions="local_only"),
        "local_only",
        "cachix/install-nix-action@*",
    ),
    ("allowed actions", selected(github_owned_allowed=False), "all but actions/attest", "actions/checkout@*"),
    (
        "allowed actions",
        selected(patterns_allowed=["cachix/*@v31"]),
        "all but cachix",
        "cachix/install-nix-",
    ),
    (
        "allowed actions",
        selected(patterns_allowed=["cachix/*", "!cachix/install-nix-action@*"]),
        "all but cachix/install-nix-action",
        "selected-actions",
    ),
    ("retention of artifacts", setting("artifact-and-log-retention", days=34), "days: 34", '"days": 35'),
    (f"check `{CHECK}` on release/13", rules(rule("other")), "not required", "rulesets"),
    (f"check `{CHECK}` on release/13", rules(), "not required", CHECK),
    (
        "branches up to date before a merge into release/13",
        rules(rule(CHECK, strict=False)),
        "not required",
        '"strict_required_status_checks_policy": true',
    ),
    ("branches of the environment release", kept("release", OPEN), "every branch", "deployment-branch-policies"),
    ("branches of the environment release", kept("release", environment("main")), "main", '"name": "release/13"'),
    (
        "branches of the environment release",
        kept("release", environment("main", "release/13", "dev")),
        "dev, main, release/13",
        "--method DELETE repos/my-org/stack/environments/release/deployment-branch-policies/3",
    ),
    (
        "branches of the environment release",
        kept("release", environment("main", "release/*")),
        "main, release/*",
        "deployment-branch-policies/2",
    ),
    (
        "branches of the environment release",
        kept("release", environment(protected=True)),
        "no branch",
        '"name": "main"',
    ),
    (
        "reviewers of the environment release",
        kept("release", environment("main", "release/13", reviewers=2)),
        "some",
        "#",
    ),
    (
        "secrets of the environment sync",
        named("sync", "SYNC_APP_ID"),
        "SYNC_APP_ID",
        "# gh secret set SYNC_APP_PRIVATE_KEY",
    ),
    ("secrets of the repository", named("secrets", "SYNC_APP_ID"), "SYNC_APP_ID", "actions/secrets/SYNC_APP_ID"),
    ("secrets of the repository", named("secrets", "FLEET_TOKEN"), "FLEET_TOKEN", "DELETE"),
    (
        "secrets of the organisation",
        named("organization-secrets", "NIX_CACHE_SIGNING_KEY"),
        "NIX_CACHE_SIGNING_KEY",
        "orgs/my-org/actions/secrets/NIX_CACHE_SIGNING_KEY",
    ),
    ("runner group spark", hide("spark"), "no group of this name", ""),
    ("runner group publish", hide("publish"), "no group of this name", ""),
    (
        "runner group publish",
        group("publish", restricted_to_workflows=False),
        "every workflow",
        "restricted_to_workflows",
    ),
    (
        "runner group publish",
        group("publish", selected_workflows=[]),
        "none",
        f"{REPOSITORY}/.github/workflows/shard-publish.yml@refs/heads/main",
    ),
]


@pytest.mark.parametrize(
    ("name", "change", "says", "call"), WRONG, ids=[f"{at}-{one[0]}" for at, one in enumerate(WRONG)]
)
def test_each_wrong_setting_is_reported_and_no_other(
    right: GitHub, everything: Plan, name: str, change: WRITTEN, says: str, call: str
) -> None:
    change(right)
    wrong = found(right, everything)
    assert list(wrong) == [name]
    assert says in wrong[name].found
    assert call in "\n".join(wrong[name].calls)
    assert [one for line in wrong[name].calls for one in problems_of(line)] == []
    assert not found(right, everything, SettingState.UNREAD)


ROWS = tomllib.loads((Path(settings_module.__file__).with_name("settings.toml")).read_text("utf-8"))
KEYS = [(name, key) for name, row in ROWS.items() for key in row["wanted"]]
OTHER = {"approval_policy": "first_time_contributors_new_to_github", "default_workflow_permissions": "write"}
"""Of the words that GitHub knows, one that is not right."""


@pytest.mark.parametrize(("name", "key"), KEYS)
def test_each_value_of_the_table_is_wrong_absent_or_refused_in_turn(
    right: GitHub, everything: Plan, name: str, key: str
) -> None:
    row = ROWS[name]
    right.public = not row.get("private", False)
    values, wanted = right.settings[row["path"].removeprefix("/") or "permissions"], row["wanted"][key]
    values[key] = {bool: not wanted, int: 1}.get(type(wanted), OTHER.get(key))
    assert judged(right, everything) == {name: SettingState.WRONG}
    values.update(row.get("unless", {}))
    assert judged(right, everything) == ({} if row.get("unless") else {name: SettingState.WRONG})
    values.update({key: not value for key, value in row.get("unless", {}).items()})
    without = Fault(200, body=json.dumps({**values, key: None}).encode())
    right.chance = lambda _, path: without if _of(path, row) else None
    assert judged(right, everything) == {name: SettingState.UNREAD}
    right.chance = lambda _, path: Fault(403, message="no") if _of(path, row) else None
    unread = judged(right, everything)
    assert unread.pop(name) is SettingState.UNREAD
    assert unread == ({"allowed actions": SettingState.UNREAD} if row["path"] == "" else {})


def _of(path: str, row: Mapping[str, str]) -> bool:
    return path.endswith(f"/actions/permissions{row['path']}")


def wrong_by_name(github: GitHub, name: str) -> None:
    """Makes a setting wrong that is read from the compiled workflows."""
    match name.split():
        case ["allowed", _]:
            github.settings["permissions"]["allowed_actions"] = "local_only"
        case ["check", *_, branch]:
            github.rules[branch] = []
        case ["branches", "up", *_, branch]:
            github.rules[branch] = [rule(CHECK, strict=False)]
        case ["branches", *_, one]:
            github.environments[one]["deployment_branch_policy"] = None
        case ["reviewers", *_, one]:
            github.environments[one] |= {"protection_rules": environment(reviewers=1)["protection_rules"]}
        case ["secrets", _, _, "environment", one]:
            github.secret_names[one] = []
        case ["secrets", *_, place]:
            secrets = "secrets" if place == "repository" else "organization-secrets"
            github.secret_names[secrets] = ["NIX_CACHE_SIGNING_KEY"]
        case ["runner", "group", one]:
            hide(one)(github)


STATE = ("settings", "rules", "environments", "secret_names", "hidden_groups")


def test_each_setting_of_the_workflows_is_wrong_in_turn(right: GitHub, everything: Plan) -> None:
    names = [one.name for one in settings(talk(right).client, everything) if one.name not in ROWS]
    for name in names:
        before = {part: copy.deepcopy(getattr(right, part)) for part in STATE}
        wrong_by_name(right, name)
        optional = name == "secrets of the environment fleet-watch"
        assert judged(right, everything) == ({} if optional else {name: SettingState.WRONG})
        for part, value in before.items():
            setattr(right, part, value)
    assert len(names) == 18


def problems_of(line: str) -> Iterator[str]:
    """What GitHub's description of its API says against a call of `gh api`; a remark is none."""
    head, _, rest = line.partition("\n")
    if head.startswith("#"):
        return
    words = head.split()
    asked = description().operation(words[3], f"/{words[4]}")
    assert words[:3] == ["gh", "api", "--method"]
    assert asked is not None, head
    yield from description().request_problems(asked, {}, json.loads(rest.removesuffix("END")) if rest else None)


def test_an_environment_that_is_missing_would_be_made_for_every_branch(right: GitHub, everything: Plan) -> None:
    kept("release", None)(right)
    wrong = found(right, everything)
    assert list(wrong) == ["branches of the environment release", "secrets of the environment release"]
    assert "GitHub creates it for every branch" in wrong["branches of the environment release"].found


@pytest.mark.parametrize(
    "change",
    [
        kept("github-pages", None),
        named("fleet-watch"),
        rules({"type": "merge_queue", "parameters": None}, rule(CHECK, strict=False)),
        rules(rule(CHECK, strict=False), rule(CHECK)),
        selected(),
        both(private, setting(FORKS, run_workflows_from_fork_pull_requests=False, send_secrets_and_variables=True)),
        private,
        setting("artifact-and-log-retention", days=35),
    ],
)
def test_what_serves_as_well_is_not_reported(right: GitHub, everything: Plan, change: WRITTEN) -> None:
    if change is not private:
        change(right)
    rule_of_queue(right)
    assert not found(right, everything)
    assert not found(right, everything, SettingState.UNREAD)


def rule_of_queue(github: GitHub) -> None:
    """GitHub's description asks for parameters of a merge queue."""
    values = {"check_response_timeout_minutes": 60, "grouping_strategy": "ALLGREEN", "max_entries_to_build": 5}
    values |= {"max_entries_to_merge": 5, "merge_method": "MERGE", "min_entries_to_merge": 1}
    values |= {"min_entries_to_merge_wait_minutes": 5}
    for one in github.rules["release/13"]:
        if one["type"] == "merge_queue":
            one["parameters"] = values


def test_classic_protection_requires_the_check_as_well(right: GitHub, everything: Plan) -> None:
    rules()(right)
    right.protected["release/13"] = {"contexts": [CHECK], "strict": True}
    assert not found(right, everything)
    right.protected["release/13"] = {"contexts": [CHECK], "strict": False}
    assert list(found(right, everything)) == ["branches up to date before a merge into release/13"]
    right.protected["release/13"] = {"contexts": ["other"], "strict": True}
    assert list(found(right, everything)) == [f"check `{CHECK}` on release/13"]


def test_protected_branches_are_those_of_the_environment(right: GitHub, everything: Plan) -> None:
    kept("release", environment(protected=True))(right)
    right.protected = {name: {"contexts": [CHECK], "strict": True} for name in ("main", "release/13")}
    assert not found(right, everything)


def test_a_repository_of_a_user_has_no_groups_and_no_secrets_above_it(github: GitHub, everything: Plan) -> None:
    set_up(github, everything)
    assert list(found(github, everything)) == ["runner group gpu", "runner group publish", "runner group spark"]
    assert not any("organization" in path for _, path, _ in github.asked)


def test_the_creators_that_github_verified_are_not_known(right: GitHub, everything: Plan) -> None:
    selected(verified_allowed=True, patterns_allowed=["other/*"])(right)
    assert not found(right, everything)
    unread = found(right, everything, SettingState.UNREAD)
    assert "cachix/install-nix-action" in unread["allowed actions"].found


def test_an_old_server_does_not_know_every_setting(right: GitHub, everything: Plan) -> None:
    del right.settings["permissions"]["sha_pinning_required"]
    assert list(found(right, everything, SettingState.UNREAD)) == ["pinned actions"]


ADMINISTRATION = "actions/permissions"


@pytest.mark.parametrize("status", [403, 404])
@pytest.mark.parametrize(
    ("path", "unread"),
    [
        (ADMINISTRATION, 5),
        ("/actions/permissions/workflow", 1),
        ("/environments\\?", 8),
        ("deployment-branch-policies", 4),
        ("/secrets", 4),
        ("/actions/secrets", 1),
        ("/rules/branches/", 2),
        ("/runner-groups", 3),
        ("/(actions|environments|rules|runner-groups)", 20),
    ],
)
def test_what_the_token_may_not_read_is_neither_right_nor_wrong(
    right: GitHub, everything: Plan, status: int, path: str, unread: int
) -> None:
    refused = Fault(status, path=path, message="Resource not accessible by integration")
    right.chance = lambda method, target: refused if refused.is_for(method, target) else None
    assert not found(right, everything)
    states = found(right, everything, SettingState.UNREAD)
    assert len(states) == unread
    assert all("accessible" in one.found and not one.calls for one in states.values())


@pytest.mark.parametrize("body", [b"[]", b"{}", b"null", b"[1]", b'{"total_count": 1}', b"<html>"])
def test_garbage_is_one_finding(
    right: GitHub, everything: Plan, body: bytes, commands: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    paths = {path.partition("?")[0] for _, path, _ in asked_by(right, everything)}
    assert len(paths) > 12
    for path in sorted(paths):
        right.faults = [Fault(200, path=f"{path}(\\?|$)", body=body)] * 8
        assert run(PROGRAM, ["settings", "--check", *commands(right)]) in {0, 1, 2}
        lines = capsys.readouterr().err.splitlines()
        assert all(line.partition(": ")[0] in {"error", "warning"} or "waiting" in line for line in lines), lines


def asked_by(github: GitHub, decided: Plan) -> Iterator[tuple[str, str, object]]:
    list(settings(talk(github).client, decided))
    return iter(list(github.asked))


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Options of a command that asks `github` about the example."""

    def options(github: GitHub) -> list[str]:
        values = {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        return ["--root", str(tmp_path), "--spec", str(EXAMPLE)]

    monkeypatch.delenv("GITHUB_APP_ID", raising=False)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return options


def test_check_says_what_is_wrong(
    right: GitHub, commands: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(PROGRAM, ["settings", "--check", *commands(right)]) == 0
    assert capsys.readouterr() == ("", "")
    right.settings["workflow"]["default_workflow_permissions"] = "write"
    right.faults = [Fault(403, path="retention", message="no")]
    assert run(PROGRAM, ["settings", "--check", *commands(right)]) == 1
    out, err = capsys.readouterr()
    [wrong, unread] = err.splitlines()
    assert out == ""
    assert wrong.startswith(
        f"error: {REPOSITORY}: default rights of GITHUB_TOKEN: default_workflow_permissions: write, "
    )
    assert wrong.endswith("[wrong-setting]")
    assert unread.startswith(f"warning: {REPOSITORY}: retention of artifacts: not readable: ")
    assert unread.endswith("[unread-setting]")


def test_check_does_not_pass_what_it_could_not_read(right: GitHub, commands: Callable[..., list[str]]) -> None:
    right.faults = [Fault(403, path="retention", message="no")]
    assert run(PROGRAM, ["settings", "--check", *commands(right)]) == 2


def test_without_an_option_every_setting_is_shown(
    right: GitHub, commands: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    right.settings["workflow"]["default_workflow_permissions"] = "write"
    assert run(PROGRAM, ["settings", *commands(right)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 22
    assert [line for line in lines if " wrong " in line] == [
        line for line in lines if line.startswith("default rights")
    ]
    assert run(PROGRAM, ["settings", "--json", *commands(right)]) == 0
    rows = checked("ci-compile settings", capsys.readouterr().out)
    assert [row["name"] for row in rows if row["state"] == "wrong"] == ["default rights of GITHUB_TOKEN"]


def test_write_prints_a_script_that_sets_what_is_wrong(
    right: GitHub, commands: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for _, change, _, _ in WRONG:
        change(right)
    kept("release", None)(right)
    right.hidden_groups.clear()
    assert run(PROGRAM, ["settings", "--write", *commands(right)]) == 0
    assert all(method == "GET" for method, _, _ in right.asked)
    script = capsys.readouterr().out
    fake = tmp_path / "bin" / "gh"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n[ "$5" != --input ] || cat >> {tmp_path}/bodies\n', "utf-8"
    )
    fake.chmod(0o755)
    environment = {"PATH": f"{fake.parent}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-eu"], input=script, text=True, env=environment, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    calls = (tmp_path / "calls").read_text("utf-8").splitlines()
    assert {call.split()[2] for call in calls} == {"PUT", "POST", "PATCH", "DELETE"}
    bodies, at = (tmp_path / "bodies").read_text("utf-8"), 0
    while bodies[at:].strip():
        _, size = json.JSONDecoder().raw_decode(bodies[at:].lstrip())
        at += len(bodies[at:]) - len(bodies[at:].lstrip()) + size


def test_reviewers_that_the_spec_declares_must_be_there(github: GitHub) -> None:
    text = EXAMPLE.read_text("utf-8").replace("on-push: false}", "on-push: false, reviewers: true}")
    decided = plan(parse_spec(text.encode(), shown="ci-matrix.yaml"))
    set_up(github, decided)
    assert "reviewers of the environment release" in found(github, decided)
    github.environments["release"] = environment("main", "release/13", reviewers=1)
    assert "reviewers of the environment release" not in found(github, decided)
