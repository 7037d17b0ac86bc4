"""Every concurrency group that the compiler writes, of which kind it is, and what is lost if requests arrive together.

GitHub's own kind keeps one waiting request of a group and cancels it when another one arrives: of three tags pushed
together, the one in the middle is never released. No group is of that kind.
"""

from __future__ import annotations

from collections.abc import Iterator

from ci_compiler.canary.repository import files
from tests.canary.derived import ROOT, compiled, load
from tests.loops import each

QUEUED = {"cancel-in-progress": False, "queue": "max"}
"""A request waits until those before it have ended; GitHub lets a hundred wait."""

LATEST = {"cancel-in-progress": True}
"""The newest request ends those before it."""

NOTHING = "nothing"

RUNS = "SHARD-${{ github.ref }}-${{ inputs.only && github.run_id || inputs.variant || github.run_id }}"

GROUPS = {
    "SHARD": (
        f"{RUNS}-${{{{ inputs.publish }}}}-${{{{ inputs.again }}}}",
        QUEUED,
        NOTHING,
    ),
    "SHARD, with profiles": (
        f"{RUNS}-${{{{ inputs.publish }}}}-${{{{ inputs.again }}}}-${{{{ inputs.profile }}}}",
        QUEUED,
        NOTHING,
    ),
    "shard-publish.yml publish": (
        "publish-${{ fromJSON(inputs.selected).shard }}-${{ fromJSON(inputs.machine).pool }}",
        QUEUED,
        NOTHING,
    ),
    "pull-request.yml": (
        "pull-request-${{ github.event.pull_request.number || github.sha }}",
        LATEST,
        "the run for an older head of the same pull request",
    ),
    "waves.yml": ("waves", QUEUED, NOTHING),
    "schedule.yml": ("schedule", QUEUED, NOTHING),
    "push-batch.yml": ("push-profile", QUEUED, NOTHING),
    "nightly.yml": ("nightly-profile", QUEUED, NOTHING),
    "release.yml": ("release-profile", QUEUED, NOTHING),
    "sync.yml": ("sync", QUEUED, NOTHING),
    "update.yml": ("update", QUEUED, NOTHING),
    "fleet-watch.yml": ("fleet-watch", QUEUED, NOTHING),
    "pages.yml": ("pages", QUEUED, NOTHING),
    "pages-schedule.yml": ("pages-schedule", QUEUED, NOTHING),
}
"""The group by its place (file and job; SHARD for that of a shard): its name, its kind, and what is lost."""


def groups(name: str, text: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The groups of a workflow by their places, with SHARD for the name of a shard."""
    document = load(text)
    shard = name.removesuffix(".yml") if name.startswith("build-") else ""
    for place, part in {"": document, **document["jobs"]}.items():
        if found := part.get("concurrency"):
            more = ", with profiles" if shard and "inputs.profile" in found["group"] else ""
            group = found["group"].replace(shard, "SHARD", 1) if shard else found["group"]
            yield f"{'SHARD' if shard else name} {place}".strip() + more, found | {"group": group}


def test_each_group_that_is_compiled_is_of_its_declared_kind() -> None:
    found = [one for name, text in compiled() for one in groups(name, text)]
    declared = [(place, {"group": name, **kind}) for place, (name, kind, _) in GROUPS.items()]
    assert [one for one in found if one not in declared] == []
    assert [one for one in declared if one not in found] == []


def test_only_a_kind_in_which_the_newest_request_counts_loses_any() -> None:
    assert {lost == NOTHING for _, kind, lost in GROUPS.values() if kind is QUEUED} == {True}
    assert {lost == NOTHING for _, kind, lost in GROUPS.values() if kind is LATEST} == {False}


def test_tags_of_releases_of_this_repository_that_are_pushed_together_are_all_released() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text("utf-8")
    assert load(text)["concurrency"] == {"group": "release", **QUEUED}


def test_what_calls_or_starts_nothing_by_itself_needs_no_group() -> None:
    """A workflow that an event starts has a group; those that are called belong to the group of their caller."""
    for name, text in each(compiled()):
        document = load(text)
        called = set(document.get("on") or document[True]) == {"workflow_call"}
        assert ("concurrency" in document) is not called, name


def test_the_canary_has_other_groups_only_where_it_tries_them() -> None:
    found = [
        (place, {key: value for key, value in group.items() if key != "group"})
        for path, text in files(None).items()
        if path.startswith(".github/workflows/")
        for place, group in groups(path.rpartition("/")[2], text)
    ]
    assert {place for place, kind in found if kind not in (QUEUED, LATEST)} == {"canary.yml pending"}
