"""`ci-compile canary`: writes workflows that try what the compiled files assume, or reads the table of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci_compiler import __version__
from ci_compiler.canary import evidence
from ci_compiler.canary import table as tables
from ci_compiler.canary.assumptions import FEATURES, Verdict
from ci_compiler.canary.parts import MARK
from ci_compiler.canary.repository import files, used_features
from ci_compiler.cli import options
from ci_compiler.cli.console import append_to, note, print_json, table
from ci_compiler.cli.toolkit import toolkit
from ci_compiler.cli.where import SPEC, root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.files.atomic import reporting, write_file
from ci_compiler.files.drift import in_the_way, obstacle
from ci_compiler.outside import bytes_of, json_of, object_of, reading, text_of
from ci_compiler.spec.model import Spec


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--read",
        metavar="FILE",
        type=options.path,
        help="instead, say what the tables in FILE mean for this version (-: standard input)",
    )
    group.add_argument(
        "--judge",
        metavar="DIR",
        type=options.path,
        help="instead, write the table of the facts in DIR; for the workflow itself",
    )
    parser.add_argument("--needs", metavar="JSON", default="", help="with --judge, the results of the jobs")
    parser.add_argument("--results", metavar="WORDS", default="", help="with --judge, the same results, joined")
    parser.add_argument("--json", action="store_true", help="with --read, print JSON")
    options.shared(parser, "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Writes the canary's files, or judges facts, or reads a table. Raises InputError."""
    if arguments.read is not None:
        return _read(arguments.read, _own(arguments, root_of(arguments)), as_json=arguments.json)
    if arguments.judge is not None:
        return _judge(arguments)
    return _write(arguments)


def _write(arguments: argparse.Namespace) -> int:
    root = root_of(arguments)
    own = _own(arguments, root)
    where = own.toolkit if own and "toolkit" in own.document.value else toolkit(root)
    made = files(own, where)
    if problems := {path: problem for path in made if (problem := _problem(root, path))}:
        raise InputError(in_the_way(path, problem) for path, problem in problems.items())
    with reporting(root):
        for path, text in made.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            write_file(target, text)
    if where:
        note(f"hosted jobs will install ci-compiler from {where}, which must be there before the canary starts")
    else:
        note(f"hosted jobs will install ci-compiler=={__version__}, and fail if the package index has no such release")
    print(f"wrote {len(made)} files; commit and push them, then start the workflow `canary` on GitHub")
    return 0


def _own(arguments: argparse.Namespace, root: Path) -> Spec | None:
    """The repository's spec; None if it has none, in place of the bundled one."""
    given = getattr(arguments, "spec", None) is not None
    return spec_of(arguments) if given or (root / SPEC).exists() else None


def _problem(root: Path, path: str) -> str:
    """Why the file at `path` cannot be written; '' if it can. What is in the canary's own folder is replaced."""
    if problem := obstacle(root, path):
        return problem
    target = root / path
    if path.startswith(".github/canary/") or not target.exists():
        return ""
    first = text_of(target, errors="replace").partition("\n")[0]
    return "" if MARK in first[:200] else "was not written by `ci-compile canary`; move it away first"


def _judge(arguments: argparse.Namespace) -> int:
    """Appends the table of the facts in a folder to $GITHUB_STEP_SUMMARY, and prints it. Returns 0: it is a report."""
    if not arguments.judge.is_dir():
        raise wrong(arguments.judge, Code.WRONG_VALUE, "is no folder; name the one with the facts of a run")
    facts = evidence.written(arguments.judge)
    with reading("--needs", Code.WRONG_VALUE):
        facts |= evidence.of_needs(object_of(arguments.needs or "{}"), arguments.results)
    listed = arguments.judge / "jobs.json"
    if listed.exists():
        with reading(listed, Code.WRONG_VALUE):
            facts |= evidence.of_jobs(object_of(bytes_of(listed))["jobs"])
    annotated = arguments.judge / "annotations.json"
    if annotated.exists():
        with reading(annotated, Code.WRONG_VALUE):
            facts |= evidence.of_annotations(json_of(bytes_of(annotated)))
    text = tables.written_table(facts)
    append_to("GITHUB_STEP_SUMMARY", text)
    print(text, end="")
    return 0


def _read(path: Path, own: Spec | None, *, as_json: bool) -> int:
    """Prints what the tables in a file mean for this version, and for the features that the spec uses.

    Returns 1 if an assumption for one of these is broken; without a spec, all features count.
    """
    with reading(path, Code.WRONG_VALUE):
        found = tables.read_tables(text_of(path))
    if not any(one.names for one in found):
        message = "there is no table of a canary here; paste the summary of its run, from the line `ci-compiler …` on"
        raise wrong(path, Code.WRONG_VALUE, message)
    for version in sorted({one.version for one in found} - {__version__}):
        note(f"written by ci-compiler {version}; the register of this version, {__version__}, decides")
    if strange := tables.unknown(found):
        note(f"this version does not have these assumptions: {', '.join(strange)}")
    verdicts = tables.verdicts(found)
    used = used_features(own) if own else frozenset(FEATURES)
    rows = [
        {"feature": FEATURES[feature.name], "used": feature.name in used, "result": str(feature)}
        for feature in tables.features(verdicts, used)
    ]
    counting = list(tables.relied_on(used))
    broken = [assumption for assumption in counting if verdicts[assumption.name] is Verdict.BROKEN]
    if as_json:
        print_json({"features": rows, "assumptions": {name: one.value for name, one in verdicts.items()}})
        return 1 if broken else 0
    shown = ((row["feature"], "yes" if row["used"] else "no", row["result"]) for row in rows)
    table(("feature", "in the spec" if own else "in question", "result"), shown, states=["result"])
    for entry in broken:
        print(f"\nbroken: {entry.name}\n  assumed: {entry.says}\n  source: {entry.source}")
    for entry in counting:
        if verdicts[entry.name] is Verdict.NOT_TRIED:
            print(f"\nnot tried: {entry.name}\n  to try it: {entry.when}")
    return 1 if broken else 0
