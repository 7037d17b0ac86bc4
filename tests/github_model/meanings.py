"""What the steps of compiled workflows do, in the model: a table from actions and commands to their effects.

A step is recognized by the action that it uses, or by the command that it runs; a step that the table does not have is
an error. The files of a job are a mapping from folders to what is in them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.pause import words_of_cells
from ci_compiler.plan.proof import required_tests
from ci_compiler.plan.routing import Route
from ci_compiler.plan.selection import RunSelection
from ci_compiler.plan.sharding import Shard
from ci_compiler.runner.jobs.publish_run import cells_of_pool, ended_well, reported_outputs
from ci_compiler.stages import BUILD, Stage
from ci_compiler.workflows.pull_request import matrices
from tests.github_model.contexts import STALE
from tests.github_model.expressions import JsonTexts, evaluated, shown
from tests.github_model.state import Event, Publication, Run

if TYPE_CHECKING:
    from tests.github_model.model import Play, World

Outputs = Mapping[str, str]


class StepFailedError(Exception):
    """A step that fails, with what it says."""


class Built(NamedTuple):
    """The manifest of a build."""

    variant: str
    commit: str
    content: str

    @property
    def digest(self) -> str:
        """The digest of the file."""
        return f"manifest-{self.content}"


class Outcome(NamedTuple):
    """What publishing left about a variant: why it is not published, or ''."""

    variant: str
    because: str


class Tested(NamedTuple):
    """The result of a test: of a variant's content, in a stage."""

    variant: str
    stage: str
    content: str
    passed: bool

    @property
    def digest(self) -> str:
        """The digest of the file."""
        return f"result-{self.stage}-{self.content}-{self.passed}"


_EMPTY: dict[str, Any] = {}


@dataclass(slots=True, kw_only=True)
class Standing:
    """A job at one of its steps: its run, its contexts and files, and what the step is given."""

    play: Play
    run: Run
    path: str
    contexts: JsonTexts
    files: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    head: str = ""
    deep: bool = False
    env: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    fails: bool = False

    def perform(self, step: Mapping[str, Any], contexts: JsonTexts, *, fails: bool = False) -> Outputs:
        """Does what the step does; returns its outputs. Raises StepFailedError."""
        meaning = meaning_of(step)
        own = step.get("env", _EMPTY)
        if meaning.effect is not _nothing or "secrets." in str(own):
            body = self.play.tree.job(self.run.file, self.path).body
            env = evaluated(body.get("env", _EMPTY), contexts) | evaluated(own, contexts)
            self.env = {name: shown(value) for name, value in env.items()}
            self.options = evaluated(step.get("with", _EMPTY), contexts)
            self.words = _command(str(step.get("run", "")), self.env)
            self.fails = fails
        for name, value in own.items():
            if "secrets." in str(value) and "github." not in str(value) and not self.env[name]:
                raise StepFailedError(f"the secret {name} is missing")
        return meaning.effect(self)

    def option(self, name: str) -> str:
        """The value of an option of the command."""
        assert name in self.words, (name, self.words)
        return self.words[self.words.index(name) + 1]

    def shard(self, name: str) -> Shard:
        """The shard with a name."""
        return next(shard for shard in self.play.tree.plan.shards if shard.name == name)

    def event_inputs(self) -> dict[str, Any]:
        """The inputs of the run's dispatch; empty for other events."""
        return dict(json.loads(self.run.event.inputs))


_VARIABLE = re.compile(r"\$\{(\w+):\+([^}]*)\}|\$\{?(\w+)\}?")


@cache
def _words(script: str) -> tuple[str, ...]:
    """The words of a script of one command, with its variables in them; none of a longer script."""
    one = script.startswith(("ci-compile ", "ci-runner ")) and "\n" not in script.strip()
    return tuple(shlex.split(script)) if one else ()


def _command(script: str, env: Mapping[str, str]) -> list[str]:
    """The words of a script of one command, with its variables replaced."""

    def value(found: re.Match[str]) -> str:
        return (found[2] if env.get(found[1]) else "") if found[1] else env.get(found[3], "")

    words = ((word, _VARIABLE.sub(value, word) if "$" in word else word) for word in _words(script))
    return [word for written, word in words if word or not written.startswith("${")]


# Effects.


def _nothing(_: Standing) -> Outputs:
    return {}


def _check_out(at: Standing) -> Outputs:
    ref = at.options.get("ref") or at.run.event.sha
    branches = at.play.tree.spec.branches
    at.head = at.play.tip if ref in branches else str(ref)
    at.deep = at.options.get("fetch-depth") == 0
    return {}


def _compare(at: Standing) -> Outputs:
    """Compares a request with what its merge is on. Raises StepFailedError for another commit, or where it is not."""
    if STALE in at.words:
        raise StepFailedError("the merge is not on the base that the event names")
    if "--pull-request" in at.words and not at.deep:
        raise StepFailedError("the parents of the merge are not in the checkout")
    return {}


def _choose(at: Standing) -> Outputs:
    if "--pull-request" in at.words:
        _compare(at)
        return _choose_for_request(at)
    shard = at.shard(at.option("--shard"))
    chosen = _chosen(at, shard)
    parts = _parts(shard.cells, chosen)
    publish = at.run.event.name == "push" or bool(at.event_inputs().get("publish"))
    return {
        "commit": at.head,
        "chosen": json.dumps(chosen),
        "cells": json.dumps([cell.key for cell, _ in parts]),
        "onto": "",
        "pausable": " ".join(words_of_cells(parts, publish=publish)),
    }


def _chosen(at: Standing, shard: Shard) -> list[str]:
    published = {(one.variant, one.commit) for one in at.play.published}
    unpublished = at.event_inputs().get("variant") == "unpublished"
    names = wanted(at.play.world, at.run.event, shard)
    return [name for name in names if not unpublished or (name, at.head) not in published]


def wanted(world: World, event: Event, shard: Shard) -> list[str]:
    """The variants of the shard that an event is about: what its commit changed, or what was asked for."""
    inputs = json.loads(event.inputs)
    if event.name in {"push", "pull_request"}:
        return [name for name in world.changed[event.sha] if name in shard.variants]
    known = dict.fromkeys(name for names in world.changed.values() for name in names if name in shard.variants)
    asked = [name for name in known if inputs.get("variant") in {"all", "unpublished", name}]
    only = str(inputs.get("only") or "*").split()
    return [name for name in asked if any(fnmatchcase(name, glob) for glob in only)]


def _parts(cells: Sequence[tuple[Cell, Route]], chosen: Sequence[str]) -> list[tuple[Cell, Route]]:
    return [(cell, route) for cell, route in cells if any(one.name in chosen for one in cell.variants)]


def _choose_for_request(at: Standing) -> Outputs:
    names = at.play.world.changed[at.run.event.sha]
    branches = []
    for branch in at.play.tree.spec.branches:
        cells = [part for shard in at.play.tree.plan.shards if shard.branch == branch for part in shard.cells]
        if parts := _parts(cells, names):
            own = [one.name for cell, _ in parts for one in cell.variants if one.name in names]
            branches.append(RunSelection(branch=branch, cells=tuple(parts), variants=tuple(own), onto=""))
    legs = matrices(at.play.tree.plan, branches, at.head)
    return {
        "commit": at.head,
        "chosen": json.dumps({one.branch: one.variants for one in branches}),
        **{output: json.dumps(legs_) for output, legs_ in legs.items()},
        "pausable": " ".join(words_of_cells((part for one in branches for part in one.cells), publish=False)),
    }


def _build(at: Standing) -> Outputs:
    if at.fails:
        raise StepFailedError("the build fails")
    content = f"{at.head}-{at.run.number}.{at.run.attempt}"
    names = _joined(at, at.words[2])
    manifests = [Built(name, at.head, f"{content}-{name}" if len(names) > 1 else content) for name in names]
    at.files[at.option("--out")] = tuple(manifests)
    digests = json.dumps({one.variant: one.digest for one in manifests})
    return {"manifest": manifests[0].digest, "manifests": digests, "built": "yes"}


def _joined(at: Standing, name: str) -> list[str]:
    """The variants that the build of `name` makes."""
    cells = [(cell, one.name) for shard in at.play.tree.plan.shards for cell, _ in shard.cells for one in cell.variants]
    (joined,) = {cell.joined for cell, one in cells if one == name}
    return [one for cell, one in cells if joined and cell.joined == joined] or [name]


def _manifest(at: Standing, path: str) -> Built:
    """The manifest at a path of the job: in a folder, or in that of a variant there."""
    folder, *variant = path.split("/")[:-1]
    found = [
        one for one in at.files.get(folder, ()) if isinstance(one, Built) and one.variant in (variant or [one.variant])
    ]
    if not found:
        raise StepFailedError(f"{path} is missing")
    return found[0]


def _fetch(at: Standing) -> Outputs:
    manifest, digest = _manifest(at, at.words[2]), at.option("--digest")
    if digest.startswith("{"):
        digest = json.loads(digest).get(manifest.variant, "")
    if manifest.digest != digest:
        raise StepFailedError("the manifest is not the one that its build reported")
    return {}


def _test(at: Standing) -> Outputs:
    manifest, stage = _manifest(at, at.option("--manifest")), at.option("--stage")
    result = Tested(manifest.variant, stage, manifest.content, not at.fails)
    at.files[at.option("--out")] = (result,)
    if at.fails:
        raise StepFailedError(f"{stage} of {manifest.variant} fails")
    at.play.tested |= {(manifest.variant, manifest.content, stage)}
    return {"result": result.digest}


def _measure(at: Standing) -> Outputs:
    manifest = _manifest(at, at.option("--manifest"))
    result = Tested(manifest.variant, "benchmark", manifest.content, passed=True)
    at.files[at.option("--out")] = (result,)
    return {"result": result.digest}


def _publish_run(at: Standing) -> Outputs:
    if at.fails:
        raise StepFailedError("publishing fails")
    if not at.option("--chosen"):
        raise StepFailedError("what was chosen is not known")
    shard, spec = at.shard(at.words[2]), at.play.tree.spec
    pool = next(pool for pool in shard.publish_pools if pool.name == at.option("--pool"))
    reported, well = reported_outputs(shard, spec, at.option("--needs")), ended_well(shard, at.option("--needs"))
    outcomes: dict[str, str] = {}
    for cell, route in cells_of_pool(shard, pool):
        for variant in (one for one in cell.variants if one.name in json.loads(at.option("--chosen"))):
            tests = [one for one in required_tests(spec, cell, variant, route).values() if isinstance(one, Stage)]
            outcomes[variant.name] = _published(at, variant.name, tests, reported[variant.name])
    at.files[at.option("--out")] = tuple(Outcome(*one) for one in outcomes.items())
    at.play.said += [f"{name} is not published: it {because}" for name, because in outcomes.items() if because]
    if any(because and name in well for name, because in outcomes.items()):
        raise StepFailedError("results are missing, and no job that failed explains it")
    return {}


def _published(at: Standing, name: str, tests: Sequence[Stage], digests: Mapping[Any, str]) -> str:
    """Publishes a variant that passed its tests; else returns why not."""
    files = at.files.get(at.option("--results"), ())
    manifests = [one for one in files if isinstance(one, Built) and one.variant == name]
    own = [one for one in manifests if (one.digest, one.commit) == (digests[BUILD], at.option("--commit"))]
    if manifests and not own:
        raise StepFailedError(f"the manifest of {name} is not the one that its build reported")
    if not own:
        return "was not built"
    failed = [stage.name for stage in tests if not _has_passed(files, own[0], stage, digests[stage])]
    if failed:
        return f"did not pass {' and '.join(failed)}"
    publish(at, own[0])
    return ""


def _has_passed(files: Sequence[Any], manifest: Built, stage: Stage, digest: str) -> bool:
    wanted = (manifest.variant, stage.name, manifest.content, True)
    results = [one for one in files if isinstance(one, Tested) and one == wanted]
    return any(digest in {"success", one.digest} for one in results)


def publish(at: Standing, manifest: Built) -> None:
    """Publishes a build, unless it was published when the job began; records what is wrong with that."""
    play = at.play
    key = (manifest.variant, manifest.commit)
    again = "--again" in at.words
    if key in at.run.jobs[at.path].seen[1] and not again:
        return
    if not again and any((one.variant, one.commit) == key for one in play.published):
        play.violate(
            "published twice", f"run {at.run.number} publishes {manifest.variant} of {manifest.commit} once more"
        )
    variant, cell, route = play.tree.variants[at.run.event.branch, manifest.variant]
    for stage in required_tests(play.tree.spec, cell, variant, route).values():
        if isinstance(stage, Stage) and (manifest.variant, manifest.content, stage.name) not in play.tested:
            play.violate("published untested", f"run {at.run.number} publishes {manifest.variant} without {stage.name}")
    play.published = (*play.published, Publication(*manifest, at.run.number))
    play.said.append(f"run {at.run.number} publishes {manifest.variant} of {manifest.commit}")


def _publish_all(at: Standing) -> Outputs:
    """Publishes whatever was downloaded: nothing that is compiled does, but a seeded fault."""
    for manifest in at.files["results"]:
        if isinstance(manifest, Built):
            publish(at, manifest)
    return {}


def _verdict_with_failures(at: Standing) -> Outputs:
    _verdict(at, judged=True)
    return {"ended": "failed" if "failure" in at.env["RESULTS"].split() else "passed"}


def _judge(_: Standing) -> Outputs:
    raise StepFailedError("a failure is not expected")


def _verdict(at: Standing, *, judged: bool = False) -> Outputs:
    for result in at.env["RESULTS"].split():
        if result not in ({"success", "skipped", "failure"} if judged else {"success", "skipped"}):
            raise StepFailedError(f"a chosen job ended as {result}")
    for word in at.env["PAUSED"].split():
        if word.lower() in at.env["PAUSABLE"].lower().split():
            raise StepFailedError(f"paused by {word}")
    return {}


def _summary(at: Standing) -> Outputs:
    """The table of a run fails if a stage of a chosen variant left nothing."""
    if not at.option("--chosen"):
        raise StepFailedError("what the run chose is lost")
    chosen = json.loads(at.option("--chosen"))
    branch = at.option("--branch") if isinstance(chosen, list) else ""
    by_branch = {branch: chosen} if branch else chosen
    publishes = at.option("--publish") == "true" and at.run.event.branch == branch
    tree = at.play.tree
    for owner, name in ((owner, name) for owner, names in by_branch.items() for name in names):
        stages = tree.stages(owner, name, asked=at.run.event.name in _REQUESTS)
        if missing := sorted(stages.union({"publish"} if publishes else ()) - _left(at, name)):
            raise StepFailedError(f"{' and '.join(missing)} of {name} left no result")
    return {}


_REQUESTS = frozenset({"pull_request", "merge_group"})


def _left(at: Standing, name: str) -> set[str]:
    """The stages of a variant that left something in the artifacts of the run."""
    files = [one for one in at.files.get("results", ()) if isinstance(one, Built | Tested | Outcome)]
    left = {Built: "build", Outcome: "publish"}
    return {one.stage if isinstance(one, Tested) else left[type(one)] for one in files if one.variant == name}


def _upload(at: Standing) -> Outputs:
    folder = str(at.options["path"]).rstrip("/")
    folder = folder.partition("/")[0] if folder not in at.files else folder
    if files := at.files.get(folder, ()):
        overwrite = at.options.get("overwrite") is True
        at.play.upload(at.run.number, str(at.options["name"]), files, overwrite=overwrite)
    elif at.options.get("if-no-files-found") == "error":
        raise StepFailedError(f"there are no files at {folder}")
    return {}


def _download(at: Standing) -> Outputs:
    found = at.play.artifacts(at.run.number, token="github-token" in at.options)
    if name := at.options.get("name"):
        if name not in found:
            raise StepFailedError(f"there is no artifact {name}")
        at.files[str(at.options["path"])] = found[name]
    else:
        globs = str(at.options["pattern"])
        names = [name for name in found if fnmatchcase(name, globs)]
        at.files[str(at.options["path"])] = tuple(file for name in names for file in found[name])
    return {}


# The table.


class Meaning(NamedTuple):
    """What a step does, and how it may go wrong where the exploration tries that."""

    effect: Callable[[Standing], Outputs]
    mishaps: tuple[str, ...] = ()


_ACTIONS: Mapping[str, Meaning] = {
    "actions/checkout": Meaning(_check_out),
    "actions/setup-python": Meaning(_nothing),
    "actions/upload-artifact": Meaning(_upload),
    "actions/download-artifact": Meaning(_download),
    "actions/attest": Meaning(_nothing),
    "./.github/actions/setup-ci-compiler": Meaning(_nothing),
    "flox/install-flox-action": Meaning(_nothing),
    "cachix/install-nix-action": Meaning(_nothing),
    "actions/upload-pages-artifact": Meaning(_nothing),
    "actions/deploy-pages": Meaning(_nothing),
}

_COMMANDS: Mapping[str, Meaning] = {
    r"ci-compile choose ": Meaning(_choose),
    r"ci-compile summary ": Meaning(_summary),
    r"ci-compile --check ?": Meaning(_nothing, ("fails",)),
    r"ci-compile (audit|diff) ": Meaning(_compare, ("fails",)),
    r"ci-compile (site|comment) ": Meaning(_nothing),
    r"ci-compile waves ": Meaning(_nothing),
    r"ci-runner doctor --for publish": Meaning(_nothing, ("fails",)),
    r"ci-runner doctor --for ": Meaning(_nothing),
    r"ci-runner checkout --branch ": Meaning(_nothing),
    r"ci-runner build ": Meaning(_build, ("fails", "overran")),
    r"ci-runner fetch ": Meaning(_fetch),
    r"ci-runner smoke ": Meaning(_test, ("fails",)),
    r"ci-runner publish-run ": Meaning(_publish_run, ("fails", "lost")),
    r"ci-runner publish ": Meaning(_publish_all),
    r"echo \"::notice::\$NAME was not built": Meaning(_nothing),
    r"for result in \$RESULTS; do": Meaning(_verdict),
    r"ended=passed\nfor result in \$RESULTS; do": Meaning(_verdict_with_failures),
    r"ci-compile verdict ": Meaning(_judge),
    r"ci-runner needs ": Meaning(lambda _: {"artifacts": ""}),
    r"ci-runner suite ": Meaning(_nothing),
    r"ci-runner benchmark ": Meaning(_measure),
}


def meaning_of(step: Mapping[str, Any]) -> Meaning:
    """The row of a step. Raises LookupError if the table does not have it."""
    return _row(str(step.get("uses", "")).partition("@")[0], str(step.get("run", "")))


@cache
def _row(action: str, script: str) -> Meaning:
    rows = [row for name, row in _ACTIONS.items() if name == action]
    rows += [row for pattern, row in _COMMANDS.items() if script and re.match(pattern, script)]
    if not rows:
        raise LookupError(f"the model does not know what this step does: {action or script}")
    return rows[0]
