"""Pins that are not releases: nixpkgs commits and actions, what `--check` lists, and the spec's own pins."""

from __future__ import annotations

import pytest
import yaml

from ci_compiler.workflows.pins import action_pins
from tests.output import checked
from tests.recipes.test_affected import Repository
from tests.update.conftest import CHECKOUT, FILE, SPEC
from tests.update.upstreams import Upstreams


def listed(fleet: Repository, capsys: pytest.CaptureFixture[str], *words: str) -> list[list[str]]:
    """The rows of `--check`, which writes nothing."""
    before = (fleet.root / FILE).read_bytes()
    capsys.readouterr()
    assert fleet.ci("update", "--check", *words) == 1
    assert (fleet.root / FILE).read_bytes() == before
    rows = [line.split(maxsplit=4) for line in capsys.readouterr().out.splitlines()]
    assert fleet.ci("update", "--check", "--json", *words) == 1
    found = checked("ci-compile update", capsys.readouterr().out)
    assert [list(one.values()) for one in found["changes"]] == rows
    return rows


def test_a_check_lists_what_is_stale_and_why(
    fleet: Repository, actions: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    flox = ["-", "flox", "1.16.0", "9999.0.0", "a newer release; it comes with a newer ci-compiler"]
    assert listed(fleet, capsys) == [flox]
    assert listed(fleet, capsys, "images") == [flox]
    assert fleet.ci("update", "actions", "nixpkgs", "--check") == 0
    actions.release("2.8.1", "0.23.1", "")
    actions.tag(CHECKOUT, "v99.0.0")
    assert listed(fleet, capsys) == [
        *(
            [branch, package, *versions, "a newer release"]
            for branch in ("main", "next", "edge")
            for package, *versions in (["pytorch", "2.8.0", "2.8.1"], ["torchvision", "0.23.0", "0.23.1"])
        ),
        ["-", CHECKOUT, action_pins()[CHECKOUT]["tag"], "v99.0.0", "a newer release"],
        flox,
    ]
    assert listed(fleet, capsys, "torchvision", "actions") == listed(fleet, capsys)[:-1]


@pytest.mark.usefixtures("actions")
def test_a_check_announces_expected_failures_that_end(fleet: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"variants": "pytorch-*", "stage": "cpu-test", "because": "a flaky test"}
    found = []
    for until in ("2020-01-01", "2999-12-31"):
        fleet.write(FILE, f"{SPEC}\nexpected-failures: [{entry | {'until': until}}]\n")
        assert fleet.ci("update", "--check") == 1  # a release of Flox is newer as well
        found.append("ended after 2020-01-01, and failures count again" in capsys.readouterr().err)
    assert found == [True, False]


def test_a_moved_tag_of_an_action_is_listed_and_never_taken(
    fleet: Repository, actions: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    now = actions.tag(CHECKOUT, action_pins()[CHECKOUT]["tag"], text="other code")
    row = listed(fleet, capsys)[0]
    assert row[1:4] == [CHECKOUT, action_pins()[CHECKOUT]["commit"][:12], now[:12]]
    assert "names another commit now" in row[4]
    assert fleet.ci("update", "actions") == 0
    assert (fleet.root / FILE).read_text("utf-8") == SPEC


def test_a_newer_release_of_an_action_is_pinned_in_the_spec(fleet: Repository, actions: Upstreams) -> None:
    commit = actions.tag(CHECKOUT, "v99.0.0")
    assert fleet.ci("update", "actions") == 0
    text = (fleet.root / FILE).read_text("utf-8")
    assert text == f"{SPEC}pins:\n  {CHECKOUT}: {{tag: v99.0.0, commit: {commit}}}\n"


def test_the_pins_of_a_spec_overrule_those_of_the_compiler(fleet: Repository) -> None:
    commit = "a" * 40
    fleet.write(FILE, f"{SPEC}pins: {{{CHECKOUT}: {{tag: v99.0.0, commit: {commit}}}}}\n")
    assert fleet.ci() == 0
    cell = (fleet.root / ".github/workflows/cell.yml").read_text("utf-8")
    assert f"uses: {CHECKOUT}@{commit} # v99.0.0" in cell
    assert cell.count(f"{CHECKOUT}@") == cell.count(f"{CHECKOUT}@{commit}")


def test_a_pin_of_an_action_that_no_workflow_uses_is_an_error(
    fleet: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.write(FILE, f"{SPEC}pins: {{actions/checkuot: {{tag: v1, commit: {'a' * 40}}}}}\n")
    assert fleet.ci() == 2
    expected = "no compiled workflow uses 'actions/checkuot'; did you mean actions/checkout"
    assert expected in capsys.readouterr().err


def test_nixpkgs_goes_to_the_newest_commit_with_the_same_versions(fleet: Repository, upstreams: Upstreams) -> None:
    wanted = upstreams.nixpkgs("nixos-25.11", torch="2.8.0", torchvision="0.23.0")
    upstreams.nixpkgs("nixos-unstable", torch="2.9.1", torchvision="0.24.1")
    assert fleet.ci("update", "nixpkgs", "--branch", "edge") == 0
    rows = yaml.safe_load((fleet.root / FILE).read_text("utf-8"))["branches"]
    assert [name for name, row in rows.items() if row["nixpkgs"] == wanted] == ["edge"]
    before = (fleet.root / FILE).read_bytes()
    assert fleet.ci("update", "nixpkgs", "--branch", "edge") == 0
    assert (fleet.root / FILE).read_bytes() == before


def test_own_recipes_are_listed_and_their_pins_stay(
    fleet: Repository, actions: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    """A spec as `adopt` writes it: the recipes state the version and the nixpkgs commit, not the spec."""
    text = SPEC.replace("{attribute: torch}", "{attribute: torch, recipes: own}")
    fleet.write(FILE, text.replace("{needs: [pytorch]}", "{needs: [pytorch], recipes: own}"))
    actions.release("2.8.1", "0.23.1", "")
    actions.nixpkgs("nixos-unstable", torch="2.8.0", torchvision="0.23.0")
    rows = listed(fleet, capsys)
    assert rows[0] == ["main", "pytorch", "2.8.0", "2.8.1", "a newer release; its recipes are your own"]
    assert not [row for row in rows if "nixpkgs" in row]
    assert fleet.ci("update") == 0
    said = capsys.readouterr()
    assert said.out == "nothing can be updated\n"
    assert "pytorch stays on main: there are no recipes here" in said.err
    assert fleet.ci("update", "pytorch", "--to", "2.8.1", "--branch", "next") == 2
    assert "the recipes of pytorch are the repository's own; check out the branch" in capsys.readouterr().err


def test_what_was_not_looked_up_is_not_called_the_newest(
    fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    """One branch has a package whose releases are known; on the others, nothing says where they are."""
    upstreams.tag("my-org/tool", "v1.0.0")
    spec = SPEC.replace("attribute: torch", "attribute: engine").replace("torchvision", "addon")
    with_tool = spec.replace("packages:", "packages:\n  tool: {branches: [main], upstream: {repository: my-org/tool}}")
    for text, said in (
        (spec, "no release was looked up"),
        (
            with_tool.replace("main:  # what most users have\n", "main:\n").replace(
                "versions: {pytorch", "versions: {tool: 1.0.0, pytorch", 1
            ),
            "every branch that was looked up (main) has the newest release of its line",
        ),
    ):
        fleet.write(FILE, text)
        capsys.readouterr()
        assert fleet.ci("update") == 0
        found = capsys.readouterr()
        assert found.out == f"{said}\n"
        assert "not looked up, since nothing says where their releases are (`upstream`): pytorch, addon" in found.err
