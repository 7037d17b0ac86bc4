"""A compiled tree as the model reads it: workflows by the names of their files, and each job where it is called."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.pause import words_of_jobs
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.routing import Route
from ci_compiler.spec.model import Spec
from ci_compiler.spec.triggers import PULL_REQUEST
from ci_compiler.sync.compiled import compile_files
from ci_compiler.workflows.common import runs_on

Document = dict[str, Any]


@dataclass(frozen=True, eq=False)
class JobText:
    """A job as it is written."""

    id: str
    body: Mapping[str, Any]

    @property
    def needs(self) -> tuple[str, ...]:
        """The ids of the jobs that it waits for."""
        needs = self.body.get("needs", ())
        return (needs,) if isinstance(needs, str) else tuple(needs)

    @property
    def condition(self) -> str:
        """Its `if:`."""
        return str(self.body.get("if", "success()"))

    @property
    def calls(self) -> str:
        """The name of the file of the workflow that it calls; '' for a job with steps."""
        uses = str(self.body.get("uses", ""))
        assert not uses or uses.startswith("./.github/workflows/"), uses
        return uses.rpartition("/")[2]

    @property
    def matrix(self) -> Any:
        """The legs of its matrix, or the expression of them; None without one."""
        return self.body.get("strategy", {}).get("matrix", {}).get("include")

    @cached_property
    def publishes(self) -> bool:
        """Whether one of its steps publishes."""
        return any(str(step.get("run", "")).startswith("ci-runner publish") for step in self.body["steps"])

    @cached_property
    def judges(self) -> bool:
        """Whether one of its steps gives the verdict on the run."""
        return any("\nfor result in" in f"\n{step.get('run', '')}" for step in self.body.get("steps", ()))

    @cached_property
    def asks_runner(self) -> bool:
        """Whether its steps ask what machine they are on."""
        return "runner." in json.dumps(self.body["steps"])

    @cached_property
    def uses_secrets(self) -> bool:
        """Whether its steps use secrets."""
        return "secrets." in json.dumps(self.body["steps"])

    @cached_property
    def starts_waves(self) -> bool:
        """Whether one of its steps starts waves."""
        return any(str(step.get("run", "")).startswith("ci-compile waves") for step in self.body["steps"])

    @cached_property
    def reads_variables(self) -> bool:
        """Whether its steps or outputs read variables of the repository."""
        return "vars." in json.dumps([self.body["steps"], self.body.get("outputs")])

    @property
    def environment(self) -> Any:
        """The name of its environment; None without one."""
        environment = self.body.get("environment")
        return environment["name"] if isinstance(environment, Mapping) else environment


@dataclass(frozen=True, eq=False)
class Tree:
    """Workflows by the names of their files, and the plan that they were compiled from."""

    plan: Plan
    files: Mapping[str, Document]
    jobs_: dict[tuple[str, str], JobText] = field(default_factory=dict)

    @property
    def spec(self) -> Spec:
        """The spec."""
        return self.plan.spec

    @cached_property
    def variants(self) -> Mapping[tuple[str, str], tuple[Variant, Cell, Route]]:
        """The variants by branch and name, each with its cell and route."""
        shards = self.plan.shards
        parts = ((shard.branch, cell, route) for shard in shards for cell, route in shard.cells)
        return {(branch, one.name): (one, cell, route) for branch, cell, route in parts for one in cell.variants}

    @cache  # noqa: B019 - a test has few trees
    def stages(self, branch: str, name: str, *, asked: bool) -> frozenset[str]:
        """The stages of a variant that leave something in a run, before publishing; `asked`: in that of a request."""
        _, _, route = self.variants[branch, name]
        pools = route.of_request(self.spec.profiles.left_out(PULL_REQUEST)).pools if asked else route.pools
        tests = (stage.name for stage in self.spec.stages if stage.is_test and stage.proves and stage in pools)
        return frozenset({"build", *tests})

    @cached_property
    def secrets(self) -> list[str]:
        """The names of the secrets that its workflows use."""
        return sorted(set(re.findall(r"\bsecrets\.(\w+)", json.dumps(self.files))))

    @cache  # noqa: B019 - a test has few trees
    def ungranted(self, file: str) -> tuple[str, ...]:
        """The jobs of called workflows that ask for more than their callers grant: GitHub then starts no run."""
        return tuple(_ungranted(self.files, file))

    def file_of(self, file: str, path: str) -> str:
        """The name of the file that has the job at `path` of a run of `file`."""
        above = path.rpartition("/")[0]
        return self.job(file, above).calls if above else file

    def job(self, file: str, path: str) -> JobText:
        """The job at `path` of a run of `file`: ids with `/` between calls; `#1` is the second leg of a matrix."""
        found = self.jobs_.get((file, path))
        if found is None:
            id_ = path.rpartition("/")[2].partition("#")[0]
            found = JobText(id_, self.files[self.file_of(file, path)]["jobs"][id_])
            self.jobs_[file, path] = found
        return found

    @cache  # noqa: B019 - a test has few trees
    def pausing(self, where: str, branch: str) -> frozenset[str]:
        """The words that pause a job of `branch` on machines that `where` addresses, as JSON of `runs-on`."""
        pools = [pool.name for pool in self.spec.pools if json.dumps(runs_on(pool.runs_on)) == where]
        return frozenset(words_of_jobs((branch, pool) for pool in pools))

    def changed(self, edit: Callable[[Document, Mapping[str, Document]], None]) -> Tree:
        """The tree with its files edited, each beside all of them; an edit that changes nothing is an error."""
        documents = copy.deepcopy(dict(self.files))
        for document in documents.values():
            edit(document, self.files)
        assert documents != self.files, "the edit changes nothing"
        return Tree(self.plan, documents)


_RIGHTS = ("none", "read", "write")


def _ungranted(
    files: Mapping[str, Document], file: str, granted: Mapping[str, str] | None = None, above: str = ""
) -> Iterator[str]:
    """The jobs of `file`, and of those that it calls, that ask for more than what is `granted` (None: anything)."""
    for name, job in files[file]["jobs"].items():
        asked = job.get("permissions", files[file].get("permissions", {}))
        limit = asked if granted is None else granted
        if any(_RIGHTS.index(right) > _RIGHTS.index(limit.get(scope, "none")) for scope, right in asked.items()):
            yield f"{above}{name}"
        if called := JobText(name, job).calls:
            yield from _ungranted(files, called, asked, f"{above}{name}/")


def document(text: str) -> Document:
    """A workflow; `on` is a word to GitHub, and no truth value of YAML 1.1."""
    loaded = yaml.load(text, yaml.CSafeLoader)
    found = {"on" if key is True else key: value for key, value in loaded.items()}
    if isinstance(found["on"], str):
        found["on"] = {found["on"]: None}
    return found


def tree_of(spec: Spec) -> Tree:
    """What `spec` compiles to."""
    decided = plan(spec)
    texts = {Path(path): text for path, text in compile_files(decided).items() if "/workflows/" in path}
    return Tree(decided, {path.name: document(text) for path, text in texts.items()})


def read_tree(folder: Path, spec: Spec) -> Tree:
    """The compiled workflows in a folder."""
    texts = {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.yml"))}
    own = {name: text for name, text in texts.items() if text.startswith("# Compiled by")}
    return Tree(plan(spec), {name: document(text) for name, text in own.items()})


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    words = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(words.get(part, re.escape(part)) for part in re.split(r"(\*\*|\*|\?)", glob)))


def matches(names: Iterable[str], globs: Iterable[str]) -> bool:
    """Whether one of `names` matches a filter of a trigger, whose last pattern that matches decides (`!`: not)."""

    def does(name: str) -> bool:
        hits = [not glob.startswith("!") for glob in globs if _pattern(glob.removeprefix("!")).fullmatch(name)]
        return bool(hits) and hits[-1]

    return any(does(name) for name in names)
