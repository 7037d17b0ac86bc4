"""The environments that the compiled workflows name, and the places of their secrets, compared with those on GitHub."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from shlex import quote as in_shell
from typing import Any, NamedTuple
from urllib.parse import quote

from ci_compiler.github.client import Client
from ci_compiler.github.reliance import OPTIONAL, Reliance, UsedEnvironment
from ci_compiler.github.setting import Answer, Setting, call, listed, setting, to_set
from ci_compiler.outside import expected as typed
from ci_compiler.plan.pipeline import Plan


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

    def branches(self) -> Answer:
        """Which branches may deploy to it. GitHub creates a missing one for all of them, once a job names it."""
        found, wanted = self.every().get(self.name.casefold()), self.used.branches
        # Assumes `missing-environment`.
        if found is None and not self.used.secrets:
            return Answer("there is no such environment yet", right=True)
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
        return Answer(said, policies.keys() == wanted, (create, *adds, *drops))

    def reviewers(self, *, wanted: bool) -> Answer:
        """Whether somebody approves its jobs."""
        found = self.every().get(self.name.casefold())
        some = bool(found and found.reviewers)
        text = (
            f"# add reviewers to the environment {self.name} in the repository's settings"
            if wanted
            else "# write `publish: {reviewers: true}` into the spec, or remove the reviewers"
        )
        return Answer("some" if some else "none", some is wanted, (text,))

    def secrets(self) -> Answer:
        """Which of its secrets are there."""
        if self.name.casefold() in self.every():
            what = f"list the secrets of the environment {self.name}"
            found = set(self.client.pages(what, f"{self.path}/secrets", "secrets", _name_of))
        else:
            found = set()
        missing = sorted(self.used.secrets - found - OPTIONAL)
        sets = (to_set(self.client, name, f" --env {in_shell(self.name)}") for name in missing)
        return Answer(listed(self.used.secrets & found), not missing, (*sets,))

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

        def ask(path: str = path, one: str = one, wanted: Collection[str] = wanted) -> Answer:
            found = set(client.pages(f"list the secrets at {path}", path, "secrets", _name_of))
            sets = [to_set(client, name) for name in sorted(set(wanted) - found)]
            drops = [call(client, "DELETE", one.format(name)) for name in sorted(inside & found)]
            return Answer(listed(found & (inside | set(wanted))), not sets and not drops, (*sets, *drops))

        because = f"every workflow on every branch reads a secret of the {place}; environments hold {listed(inside)}"
        yield setting(f"secrets of the {place}", listed(wanted), because, ask)
