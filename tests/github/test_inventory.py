"""Listing, registering and removing the runners of repositories, organisations and runner groups."""

from __future__ import annotations

import pytest

from ci_compiler.errors import InputError
from ci_compiler.github.client import AT_ONCE
from ci_compiler.github.errors import GitHubError, Trouble
from ci_compiler.github.inventory import inventory
from ci_compiler.github.registration import Registrar, Removal

from .state import OWNER, Fault, GitHub
from .talk import talk

LABELS = ("self-hosted", "Linux", "X64")


def fleet(github: GitHub) -> None:
    shared, own = github.add_group("Default", default=True), github.add_group("gpu")
    foreign = github.add_group("others", visible=False)
    github.add_runner("repository's", LABELS)
    for number in range(130):
        github.add_runner(f"shared-{number}", LABELS, owner=OWNER, runner_group_id=shared)
    github.add_runner("gpu-1", (*LABELS, "gpu-sm90"), owner=OWNER, runner_group_id=own, busy=True)
    github.add_runner("foreign", LABELS, owner=OWNER, runner_group_id=foreign)


def test_the_runners_of_every_group_that_serves_the_repository_are_found(organisation: GitHub) -> None:
    fleet(organisation)
    found = inventory(talk(organisation).client)
    names = {runner.name: runner for runner in found.runners}
    assert found.unseen is None
    assert len(found.runners) == 132
    assert "foreign" not in names
    assert (names["repository's"].group, names["shared-7"].group, names["gpu-1"].group) == ("", "Default", "gpu")
    assert (names["gpu-1"].busy, names["gpu-1"].online, names["gpu-1"].labels) == (True, True, (*LABELS, "gpu-sm90"))


def test_a_personal_account_has_no_runner_groups(github: GitHub) -> None:
    github.add_runner("mine", LABELS)
    assert [runner.name for runner in inventory(talk(github).client).runners] == ["mine"]
    assert not any("/orgs/" in path for _, path, _ in github.asked)


@pytest.mark.parametrize("status", [403, 404])
def test_a_token_that_may_not_see_the_organisation_is_reported(organisation: GitHub, status: int) -> None:
    fleet(organisation)
    organisation.faults.append(Fault(status, path="/orgs/", message="Must have admin rights"))
    found = inventory(talk(organisation).client)
    assert [runner.name for runner in found.runners] == ["repository's"]
    assert found.unseen is not None
    assert found.unseen.trouble in {Trouble.FORBIDDEN, Trouble.MISSING}


def test_other_failures_of_the_organisation_are_errors(organisation: GitHub) -> None:
    organisation.faults += [Fault(500, path="/orgs/")] * 4
    with pytest.raises(GitHubError, match="list the runner groups of my-org"):
        inventory(talk(organisation).client)


def test_a_runner_is_registered_found_and_removed(github: GitHub) -> None:
    registrar = Registrar(talk(github).client)
    assert registrar.group("") == 1
    made = registrar.register("ci-runner-1", LABELS, 1)
    assert [label["name"] for label in github.runners[made.id]["labels"]] == list(LABELS)
    found = registrar.named("ci-runner-1")
    assert found is not None
    assert (found.id, found.online, found.busy) == (made.id, False, False)
    assert registrar.named("ci-runner-") is None
    github.runners[made.id]["busy"] = True
    assert registrar.remove(made.id) is Removal.BUSY
    github.runners[made.id]["busy"] = False
    assert registrar.remove(made.id) is Removal.REMOVED
    assert registrar.remove(made.id) is Removal.ABSENT


def test_a_name_that_is_taken_conflicts(github: GitHub) -> None:
    registrar = Registrar(talk(github, patience=AT_ONCE).client)
    registrar.register("one", LABELS, 1)
    with pytest.raises(GitHubError) as raised:
        registrar.register("one", LABELS, 1)
    assert (raised.value.trouble, raised.value.uncertain) == (Trouble.CONFLICT, False)


def test_an_organisations_runner_is_registered_in_its_group(organisation: GitHub) -> None:
    default, gpu = organisation.add_group("Default", default=True), organisation.add_group("GPU")
    registrar = Registrar(talk(organisation).client, organisation=True)
    assert (registrar.scope, registrar.group(""), registrar.group("gpu")) == (OWNER, default, gpu)
    made = registrar.register("one", LABELS, gpu)
    assert organisation.runners[made.id]["runner_group_id"] == gpu
    assert organisation.of() == []
    assert [runner.name for runner in registrar.runners()] == ["one"]
    assert registrar.remove(made.id) is Removal.REMOVED
    with pytest.raises(InputError, match="my-org has no runner group 'gpus'; did you mean GPU"):
        registrar.group("gpus")
