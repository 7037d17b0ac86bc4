"""What the compiler can write, read from what it compiles: triggers, keys, contexts, functions, actions, API calls.

Each of these *constructs* is a word such as `on.push.paths`, `job.concurrency.queue`, `github.event.repository.fork`,
`fromJSON()`, `permissions.id-token: write` or `get /actions/runners`. `derived.toml` maps each to the assumption whose
probe tries it. `python -m tests.canary.derived` prints what is wrong with it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ci_compiler.canary.assumptions import assumptions
from ci_compiler.canary.repository import files
from ci_compiler.plan.pipeline import plan
from ci_compiler.workflows.render import render
from tests.github.state import _ANSWERS
from tests.specs import STARTED, small, spec_of
from tests.test_examples import GOOD, of_example

TABLE = Path(__file__).with_name("derived.toml")
ROOT = Path(__file__).parents[2]

_STRING = re.compile(r"'(?:[^']|'')*'")
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_WORD = re.compile(r"(?<![.\w-])[a-zA-Z_][\w-]*(?:\.[\w*-]+)*(?:\s*\()?")
_NAMED = {"needs": 1, "steps": 1, "jobs": 1, "inputs": 1, "matrix": 1, "vars": 1, "secrets": 1, "env": 1}
"""Contexts whose keys are names of the workflow's own."""

_INTO = frozenset({"concurrency", "environment", "strategy", "runs-on", "permissions"})


@cache
def compiled() -> tuple[tuple[str, str], ...]:
    """The file's name and the text of every workflow: of the examples, of rarer keys, and the repository's own."""
    zoned = plan(spec_of(small(schedule={"days": ["sat"], "build": "all", "timezone": "Europe/Berlin"})))
    started = plan(spec_of(small(profiles=STARTED)))
    trees = [of_example(case.name) for case in GOOD] + [render(one.spec, one.shards) for one in (zoned, started)]
    trees.append({path.as_posix(): path.read_text("utf-8") for path in sorted(ROOT.glob(".github/workflows/*.yml"))})
    found = ((path, text) for tree in trees for path, text in tree.items() if ".github/workflows/" in path)
    return tuple((Path(path).name, text) for path, text in found if text.startswith("# Compiled"))


@cache
def written() -> frozenset[str]:
    """The constructs in everything that the compiler writes, and the calls of GitHub's API."""
    return frozenset({one for _, text in compiled() for one in constructs(load(text))} | calls())


@cache
def tried() -> frozenset[str]:
    """The constructs in the canary's own workflows, and the calls of its scripts."""
    return frozenset({*of_canary(files(None)), *of_canary(files(spec_of(small(runners=_POOLS))))})


def of_canary(texts: Mapping[str, str]) -> frozenset[str]:
    """The constructs in the workflows of a canary, and the calls of its scripts."""
    workflows = [text for path, text in texts.items() if path.startswith(".github/workflows/")]
    found = {one for text in workflows for one in constructs(load(text))}
    return frozenset(found | {one for text in texts.values() for one in asked(text)})


_POOLS = {
    "grouped": {"runs-on": {"group": "gpu", "labels": ["self-hosted", "linux", "x64"]}, "cpu": ["avx512"]},
    "gpu": {"runs-on": ["self-hosted", "linux", "x64", "gpu"], "gpu": "sm90", "cpu": ["avx512"]},
}


def load(text: str) -> dict[Any, Any]:
    """A workflow as YAML, by the fast loader where there is one."""
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # type: ignore[no-any-return]  # noqa: S506


def constructs(document: Mapping[Any, Any]) -> Iterator[str]:
    """The constructs of a workflow."""
    yield from (f"workflow.{key}" for key in document if isinstance(key, str))
    on = document.get("on") or document.get(True) or {}
    for event, options in (on if isinstance(on, dict) else dict.fromkeys(on)).items():
        yield f"on.{event}"
        for option in options if isinstance(options, list) else [options or {}]:
            yield from (f"on.{event}.{key}" for key in option)
            for one in (option.get("inputs") or {}).values():
                yield f"on.{event}.inputs.{one.get('type', 'string')}"
    yield from (f"workflow.concurrency.{key}" for key in document.get("concurrency", ()))
    for job in document.get("jobs", {}).values():
        yield from _of_job(job)
    yield from _of_texts(document)


def _of_job(job: Mapping[str, Any]) -> Iterator[str]:
    for key, value in job.items():
        yield f"job.{key}"
        if key in _INTO and isinstance(value, dict):
            yield from (f"job.{key}.{one}" for one in value)
        if key == "permissions":
            yield from (f"permissions.{scope}: {level}" for scope, level in value.items())
        if key == "steps":
            for step in value:
                yield from (f"step.{one}" for one in step)
                if "uses" in step and not step["uses"].startswith("./"):
                    action = step["uses"].partition("@")[0]
                    yield from (f"{action}: {one}" for one in step.get("with", {}) or ["-"])


def _of_texts(node: object, key: str = "") -> Iterator[str]:
    """The contexts and functions in every expression of a tree."""
    if isinstance(node, dict):
        for name, part in node.items():
            yield from _of_texts(part, str(name))
    elif isinstance(node, list):
        for part in node:
            yield from _of_texts(part, key)
    elif isinstance(node, str):
        for expression in _EXPRESSION.findall(node):
            yield from words(expression)


def words(expression: str) -> Iterator[str]:
    """The contexts and functions of an expression; names of the workflow's own are `*`."""
    plain = _STRING.sub("''", expression)
    for word in _WORD.findall(re.sub(r"\[''\]", ".*", plain)):
        if word.endswith("("):
            yield f"{word[:-1].strip()}()"
        elif word not in {"true", "false", "null"}:
            yield _generic(word)


def _generic(word: str) -> str:
    """A context with `*` for what the workflow names: jobs, steps, inputs, outputs."""
    parts = word.split(".")
    if parts[:3] == ["github", "event", "inputs"]:
        return ".".join([*parts[:3], *(["*"] if len(parts) > 3 else [])])
    if parts[0] in _NAMED and len(parts) > 1:
        parts[1] = "*"
        if len(parts) > 3 and parts[2] == "outputs":
            parts[3] = "*"
    return ".".join(parts)


def calls() -> frozenset[str]:
    """The calls of GitHub's API that the product makes: the local GitHub of the tests refuses any other."""
    return frozenset(f"api {key}" for key in _ANSWERS)


def asked(script: str) -> Iterator[str]:
    """The calls of GitHub's API in a script of the canary, as the local GitHub of the tests names them."""
    for verb, plain in requests(script):
        for key in _ANSWERS:
            known, _, template = key.partition(" ")
            # A name in the path is a variable of the script, or a file of the canary.
            pattern = re.sub(r"\{\w+\}", r"[$\\w-]*(?:[$]|canary)[\\w.-]*", template)
            if known == verb and re.fullmatch(pattern, plain):
                yield f"api {key}"


def requests(script: str) -> Iterator[tuple[str, str]]:
    """The verb and the path, below that of the repository, of each call of GitHub's API in a script."""
    text = re.sub(r"\$\{?runners\}?", "$GITHUB_REPOSITORY/actions/runners", script)
    for line in text.splitlines():
        verb = "delete" if "DELETE" in line else "patch" if "PATCH" in line else "post" if "--data" in line else "get"
        below = re.findall(r"\$GITHUB_REPOSITORY(/[^\s\"?]*)", line)
        for path in below + re.findall(r"ask (?:/dev/null|\"[^\"]*\") \"([^\"?]*)", line):
            yield verb, "/" + path.lstrip("/")


def table() -> dict[str, dict[str, str]]:
    """`derived.toml`, whose first lines say what its parts are."""
    return tomllib.loads(TABLE.read_text("utf-8"))


Table = Mapping[str, Mapping[str, str]]
Names = AbstractSet[str]


def problems(writes: Names, tries: Names, known: Table, register: Names) -> Iterator[str]:
    """What is wrong with a table for what the compiler writes, what the canary tries, and the register."""
    listed = [one for part in known.values() for one in part]
    yield from (f"{one} has no probe" for one in sorted(writes - set(listed)))
    yield from (f"{one} is never written" for one in sorted(set(listed) - writes))
    yield from (f"{one} is listed twice" for one in sorted({one for one in listed if listed.count(one) > 1}))
    yield from (f"the canary does not try {one}" for one in sorted(known["probed"].keys() - tries))
    yield from (f"the canary tries {one}" for one in sorted(known["unprobed"].keys() & tries))
    for part in ("probed", "otherwise"):
        for one, assumption in sorted(known[part].items()):
            if assumption not in register:
                yield f"{one} has the probe {assumption}, which is not in the register"


if __name__ == "__main__":
    found = [*problems(written(), tried(), table(), assumptions().keys())]
    print(*found, sep="\n", end="\n" * bool(found))
    sys.exit(bool(found))
