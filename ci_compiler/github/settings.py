"""The settings of a repository, compared with what its compiled workflows rely on.

Nothing is changed: a setting that is wrong has the calls that would set it, for a shell. What the token may not read is
neither right nor wrong.

Settings include the environments that the compiled workflows name, and the places of their secrets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from shlex import quote as in_shell
from typing import Any, NamedTuple
from urllib.parse import quote

from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError
from ci_compiler.github.inventory import UNSEEN, groups_of
from ci_compiler.github.reliance import OPTIONAL, Reliance, UsedEnvironment, reliance
from ci_compiler.outside import expected as typed
from ci_compiler.plan.pipeline import Plan


class SettingState(StrEnum):
    """What the comparison says of a setting."""

    RIGHT = "right"
    WRONG = "wrong"
    UNREAD = "not readable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting: what the compiled workflows expect and why, what GitHub says, and the calls that would set it."""

    name: str
    state: SettingState
    expected: str
    found: str
    because: str
    calls: tuple[str, ...] = ()


class SettingAnswer(NamedTuple):
    """What GitHub says of a setting, whether that is right, and what would set it."""

    found: str
    right: bool
    calls: tuple[str, ...] = ()


class UnknownError(Exception):
    """GitHub does not say what decides; the text says what."""


def call(client: Client, verb: str, path: str, body: Mapping[str, Any] | None = None) -> str:
    """A call of `gh api`; a `path` without a slash at its beginning is below that of the repository."""
    full = path[1:] if path.startswith("/") else f"repos/{client.access.repository}/{path}"
    words = f"gh api --method {verb} {in_shell(full)}"
    return words if body is None else f"{words} --input - <<'END'\n{json.dumps(body, indent=2)}\nEND"


def to_set(client: Client, secret: str, more: str = "") -> str:
    """A remark that says how to set a secret, whose value is not known here."""
    return f"# gh secret set {secret} --repo {client.access.repository}{more}"


def setting(name: str, expected: str, because: str, ask: Callable[[], SettingAnswer]) -> Setting:
    """The setting of which GitHub answers `ask`. Raises GitHubError, but not for a lack of rights."""
    try:
        answer = ask()
    except UnknownError as error:
        state, answer = SettingState.UNREAD, SettingAnswer(str(error), right=False)
    except GitHubError as error:
        if error.trouble not in UNSEEN:
            raise
        state, answer = SettingState.UNREAD, SettingAnswer(error.line, right=False)
    else:
        state = SettingState.RIGHT if answer.right else SettingState.WRONG
    calls = answer.calls if state is SettingState.WRONG else ()
    return Setting(name=name, state=state, expected=expected, found=answer.found, because=because, calls=calls)


def listed(names: Iterable[str], none: str = "none") -> str:
    """`names` in one line, sorted; `none` without any."""
    return ", ".join(sorted(names)) or none


def environments(client: Client, plan: Plan, needs: Reliance) -> Iterator[Setting]:
    """The environments that the workflows name: their branches, secrets and reviewers."""
    there: dict[str, _Known] | None = None

    def every() -> dict[str, _Known]:
        nonlocal there
        if there is None:
            there = dict(client.pages("list the environments", "environments", "environments", _known))
        return there

    for name, used in sorted(needs.environments.items()):
        one = _Environment(client, name, used, every)
        because = "a job from any other branch could take its secrets" if used.secrets else "only these branches deploy"
        yield setting(f"branches of the environment {name}", listed(used.branches), because, one.branches)
        if name == plan.spec.publish.environment:
            yield _reviewers(one, wanted=plan.spec.publish.reviewers)
        if used.secrets:
            because = "its jobs read them"
            yield setting(f"secrets of the environment {name}", listed(used.secrets), because, one.secrets)


def _reviewers(one: _Environment, *, wanted: bool) -> Setting:
    because = f"the spec says `publish: {{reviewers: {str(wanted).lower()}}}`"
    return setting(
        f"reviewers of the environment {one.name}",
        "some" if wanted else "none",
        because,
        lambda: one.reviewers(wanted=wanted),
    )


class _Known(NamedTuple):
    """What GitHub says of an environment. `protected`: it is for protected branches, None for all branches."""

    protected: bool | None
    wait: int
    reviewers: tuple[tuple[str, int], ...]
    others_only: bool

    def chosen(self) -> dict[str, Any]:
        """What makes it an environment of chosen branches, and keeps the rest."""
        return {
            "wait_timer": self.wait,
            "prevent_self_review": self.others_only,
            "reviewers": [{"type": kind, "id": number} for kind, number in self.reviewers] or None,
            "deployment_branch_policy": {"protected_branches": False, "custom_branch_policies": True},
        }


def _known(entry: Mapping[str, Any]) -> tuple[str, _Known]:
    """An environment of GitHub's list, by its name without case."""
    policy = entry.get("deployment_branch_policy")
    rules = {rule["type"]: rule for rule in entry.get("protection_rules", ())}
    asked, timer = rules.get("required_reviewers", {}), rules.get("wait_timer", {})
    return _name_of(entry).casefold(), _Known(
        protected=typed(bool, policy["protected_branches"]) if policy else None,
        wait=typed(int, timer.get("wait_timer", 0)),
        reviewers=tuple(
            (typed(str, one["type"]), typed(int, one["reviewer"]["id"])) for one in asked.get("reviewers", ())
        ),
        others_only=typed(bool, asked.get("prevent_self_review", False)),
    )


@dataclass(frozen=True, slots=True)
class _Environment:
    """An environment of the repository."""

    client: Client
    name: str
    used: UsedEnvironment
    every: Callable[[], Mapping[str, _Known]]

    @property
    def path(self) -> str:
        return f"environments/{quote(self.name, safe='')}"

    def branches(self) -> SettingAnswer:
        """Which branches may deploy to it. GitHub creates a missing one for all of them, once a job names it."""
        found, wanted = self.every().get(self.name.casefold()), self.used.branches
        # Assumes `missing-environment`.
        if found is None and not self.used.secrets:
            return SettingAnswer("there is no such environment yet", right=True)
        if found is None:
            said, policies = "there is no such environment; GitHub creates it for every branch", dict[str, str]()
        elif found.protected is None:
            said, policies = "every branch", {}
        else:
            policies = self._policies(protected=found.protected)
            said = listed(policies, "no branch")
        create = call(self.client, "PUT", self.path, (found or _Known(None, 0, (), others_only=False)).chosen())
        at = f"{self.path}/deployment-branch-policies"
        kept = {name for name, number in policies.items() if number}
        adds = (call(self.client, "POST", at, {"name": one, "type": "branch"}) for one in sorted(wanted - kept))
        drops = (call(self.client, "DELETE", f"{at}/{policies[name]}") for name in sorted(kept - wanted))
        return SettingAnswer(said, policies.keys() == wanted, (create, *adds, *drops))

    def reviewers(self, *, wanted: bool) -> SettingAnswer:
        """Whether somebody approves its jobs."""
        found = self.every().get(self.name.casefold())
        some = bool(found and found.reviewers)
        text = (
            f"# add reviewers to the environment {self.name} in the repository's settings"
            if wanted
            else "# write `publish: {reviewers: true}` into the spec, or remove the reviewers"
        )
        return SettingAnswer("some" if some else "none", some is wanted, (text,))

    def secrets(self) -> SettingAnswer:
        """Which of its secrets are there."""
        if self.name.casefold() in self.every():
            what = f"list the secrets of the environment {self.name}"
            found = set(self.client.pages(what, f"{self.path}/secrets", "secrets", _name_of))
        else:
            found = set()
        missing = sorted(self.used.secrets - found - OPTIONAL)
        sets = (to_set(self.client, name, f" --env {in_shell(self.name)}") for name in missing)
        return SettingAnswer(listed(self.used.secrets & found), not missing, (*sets,))

    def _policies(self, *, protected: bool) -> dict[str, str]:
        """The ids of its policies by the names of their branches; '' for a branch that is protected elsewhere."""
        what = f"list the branches of the environment {self.name}"
        if protected:
            return dict.fromkeys(self.client.pages(what, "branches?protected=true", "", _name_of), "")

        def read(entry: Mapping[str, Any]) -> tuple[str, str]:
            tag = entry.get("type") == "tag"
            return f"{'tag ' * tag}{entry['name']}", str(typed(int, entry["id"]))

        return dict(self.client.pages(what, f"{self.path}/deployment-branch-policies", "branch_policies", read))


def _name_of(entry: Mapping[str, Any]) -> str:
    return typed(str, entry["name"])


def secrets(client: Client, needs: Reliance) -> Iterator[Setting]:
    """Whether secrets that belong to an environment are also where every workflow of the repository reads them."""
    inside = {name for used in needs.environments.values() for name in used.secrets}
    places = {"repository": ("actions/secrets", "actions/secrets/{}")}
    if client.repository.in_organisation:
        places["organisation"] = ("actions/organization-secrets", f"/orgs/{client.access.owner}/actions/secrets/{{}}")
    for place, (path, one) in places.items():
        wanted = needs.secrets if place == "repository" else set()
        if not inside | wanted:
            continue

        def ask(path: str = path, one: str = one, wanted: Collection[str] = wanted) -> SettingAnswer:
            found = set(client.pages(f"list the secrets at {path}", path, "secrets", _name_of))
            sets = [to_set(client, name) for name in sorted(set(wanted) - found)]
            drops = [call(client, "DELETE", one.format(name)) for name in sorted(inside & found)]
            return SettingAnswer(listed(found & (inside | set(wanted))), not sets and not drops, (*sets, *drops))

        because = f"every workflow on every branch reads a secret of the {place}; environments hold {listed(inside)}"
        yield setting(f"secrets of the {place}", listed(wanted), because, ask)


_PERMISSIONS = "actions/permissions"


def settings(client: Client, plan: Plan) -> Iterator[Setting]:
    """Every setting that the workflows of `plan` rely on. Raises GitHubError, but not for a lack of rights."""
    needs = reliance(plan)
    yield from _fixed(client, plan, needs)
    because = "the compiled workflows use them"
    names = listed(needs.names_of_actions())
    yield setting("allowed actions", names, because, partial(_allowed, client, needs.actions))
    for branch in needs.branches:
        yield from _branch(client, needs, branch)
    yield from environments(client, plan, needs)
    yield from secrets(client, needs)
    for group in dict.fromkeys(pool.runs_on.group for pool in plan.spec.pools if pool.runs_on.group):
        yield _group(client, group, needs.publishers.get(group, set()))


# What is the same for every spec, and the actions.


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name("settings.toml").read_text("utf-8"))


def _fixed(client: Client, plan: Plan, needs: Reliance) -> Iterator[Setting]:
    """The settings of `settings.toml` that apply to the repository and to what is compiled."""
    # Assumes `token-settings`.
    applies = {
        "": True,
        "machines": any(not pool.hosted for pool in plan.spec.pools),
        "artifacts": "actions/download-artifact" in needs.names_of_actions(),
    }
    for name, row in _table().items():
        if applies[row.get("for", "")] and row.get("private") in {None, client.repository.private}:
            expected = _values(row["wanted"])
            yield setting(name, expected, row["because"], partial(_same, client, f"{_PERMISSIONS}{row['path']}", row))


def _same(client: Client, path: str, row: Mapping[str, Any]) -> SettingAnswer:
    """Whether the values at `path` are those that a row of the table wants."""
    wanted, unless = row["wanted"], row.get("unless", {})
    kept = row.get("keep", ())
    found = client.request(
        f"read {path}", "GET", path, read=lambda one: {key: one.get(key) for key in (*wanted, *kept)}
    )
    said = {key: found[key] for key in wanted if found[key] is not None}
    if unless and unless.items() <= found.items():
        return SettingAnswer(_values(unless), right=True)
    if missing := wanted.keys() - said.keys():
        raise UnknownError(f"GitHub does not say {listed(missing)}")
    right = all(_enough(said[key], value) for key, value in wanted.items())
    body = {key: value for key, value in {**found, **wanted}.items() if value is not None}
    return SettingAnswer(_values(said), right, (call(client, "PUT", path, body),))


def _enough(found: object, wanted: object) -> bool:
    return found >= wanted if type(found) is type(wanted) is int else found == wanted


def _values(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key}: {json.dumps(value).strip(chr(34))}" for key, value in values.items())


def _allowed(client: Client, actions: Collection[str]) -> SettingAnswer:
    """Whether the repository allows every action that the workflows use."""
    what, path = "read which actions are allowed", f"{_PERMISSIONS}/selected-actions"
    found = client.request(what, "GET", _PERMISSIONS, read=lambda one: str(one.get("allowed_actions")))
    if found == "all":
        return SettingAnswer(found, right=True)

    def read(answer: Mapping[str, Any]) -> tuple[bool, bool, list[str]]:
        patterns = [typed(str, one) for one in answer["patterns_allowed"]]
        return typed(bool, answer["github_owned_allowed"]), typed(bool, answer["verified_allowed"]), patterns

    chosen = client.request(what, "GET", path, read=read) if found == "selected" else (True, False, list[str]())
    github, verified, patterns = chosen
    refused = [
        action
        for action in sorted(actions)
        if not (github and _is_of_github(action)) and not _matches(action, patterns)
    ]
    names = listed(one.partition("@")[0] for one in refused)
    if refused and verified and not any(map(_is_of_github, refused)):
        raise UnknownError(f"GitHub does not say whether the creators of {names} are verified")
    more = [f"{one.partition('@')[0]}@*" for one in refused]
    body = {"github_owned_allowed": github, "verified_allowed": verified, "patterns_allowed": [*patterns, *more]}
    calls = [call(client, "PUT", _PERMISSIONS, {"enabled": True, "allowed_actions": "selected"})]
    calls = [*calls[: found != "selected"], call(client, "PUT", path, body)]
    said = f"all but {names}" if refused else "all of them"
    return SettingAnswer(said if found == "selected" else found, found == "selected" and not refused, (*calls,))


def _is_of_github(action: str) -> bool:
    return action.startswith(("actions/", "github/"))


def _matches(action: str, patterns: Collection[str]) -> bool:
    """Whether an action is allowed by one of `patterns`, and blocked by none, which begins with `!`."""
    found = {pattern[:1] == "!" for pattern in patterns if fnmatchcase(action, pattern.removeprefix("!"))}
    return found == {False}


# Branches.


def _branch(client: Client, needs: Reliance, branch: str) -> Iterator[Setting]:
    """Whether a branch requires the verdict, of a pull request that is up to date or in a merge queue."""
    what, at, rules = f"read the rules of {branch}", quote(branch, safe=""), dict[str, bool]()
    fix = (call(client, "POST", "rulesets", _ruleset(needs)),)

    def required() -> SettingAnswer:
        rules.update(_rules(client, what, at, needs.verdict))
        if "strict" not in rules:
            classic = client.request(what, "GET", f"branches/{at}", read=_classic, absent=frozenset[str]())
            if needs.verdict not in classic:
                return SettingAnswer("not required", right=False, calls=fix)
        return SettingAnswer("required", right=True)

    def current() -> SettingAnswer:
        strict = rules.get("strict")
        if strict is None:
            path = f"branches/{at}/protection/required_status_checks"
            strict = client.request(what, "GET", path, read=lambda answer: typed(bool, answer["strict"]))
        right = strict or "queue" in rules
        return SettingAnswer("required" if right else "not required", right, fix)

    because = "only this check waits for all jobs of the pull request"
    found = setting(f"check `{needs.verdict}` on {branch}", "required", because, required)
    yield found
    if found.state is SettingState.RIGHT:
        because = "the check applies to the base that it ran on"
        yield setting(f"branches up to date before a merge into {branch}", "required", because, current)


def _ruleset(needs: Reliance) -> dict[str, Any]:
    """A ruleset that requires the verdict on every branch."""
    checks = {
        "strict_required_status_checks_policy": True,
        "required_status_checks": [{"context": needs.verdict}],
        "do_not_enforce_on_create": True,  # or the first push of a branch would be refused
    }
    refs = [f"refs/heads/{branch}" for branch in needs.branches]
    return {
        "name": "ci-compile",
        "target": "branch",
        "enforcement": "active",
        "conditions": {"ref_name": {"include": refs, "exclude": []}},
        "rules": [{"type": "required_status_checks", "parameters": checks}],
    }


def _rules(client: Client, what: str, at: str, verdict: str) -> dict[str, bool]:
    """What rulesets say of a branch: whether the verdict must be `strict`, and whether there is a merge `queue`."""

    def read(rule: Mapping[str, Any]) -> dict[str, bool]:
        if rule["type"] != "required_status_checks":
            return {"queue": True} if rule["type"] == "merge_queue" else {}
        given = rule["parameters"]
        if verdict not in {check["context"] for check in given["required_status_checks"]}:
            return {}
        return {"strict": typed(bool, given["strict_required_status_checks_policy"])}

    found: dict[str, bool] = {}
    for one in client.pages(what, f"rules/branches/{at}", "", read):
        found |= {key: value or found.get(key, False) for key, value in one.items()}
    return found


def _classic(answer: Mapping[str, Any]) -> frozenset[str]:
    """The checks that the protection of a branch requires."""
    protection = answer["protection"] if answer["protected"] else {}
    return frozenset(map(str, (protection.get("required_status_checks") or {}).get("contexts", ())))


# Runner groups.


def _group(client: Client, name: str, publishing: Collection[str]) -> Setting:
    """Whether a runner group serves the repository, and one that publishes its compiled workflows alone."""
    owner, _, repository = client.access.repository.partition("/")
    own = f"{client.access.repository}/"
    wanted = {f"{own}{one}" for one in publishing}

    def ask() -> SettingAnswer:
        if not client.repository.in_organisation:
            return SettingAnswer("a repository of a user has none", right=False)
        groups = groups_of(client, owner, f"?visible_to_repository={quote(repository)}")
        found = next((group for group in groups if group.name.casefold() == name.casefold()), None)
        if found is None:
            return SettingAnswer("no group of this name serves the repository", right=False)
        if not wanted:
            return SettingAnswer("it does", right=True)
        others = {one for one in found.workflows or () if not one.startswith(own)}
        body = {"name": found.name, "restricted_to_workflows": True, "selected_workflows": sorted(wanted | others)}
        fix = call(client, "PATCH", f"/orgs/{owner}/actions/runner-groups/{found.id}", body)
        if found.workflows is None:
            return SettingAnswer("it takes the jobs of every workflow", right=False, calls=(fix,))
        here = found.workflows - others
        return SettingAnswer(listed(one.removeprefix(own) for one in here), here == wanted, (fix,))

    because = (
        "a job of any other workflow could reach the machines that publish" if wanted else "pools of the spec are in it"
    )
    expected = f"serves {listed(publishing)} alone" if wanted else "serves the repository"
    return setting(f"runner group {name}", expected, because, ask)
