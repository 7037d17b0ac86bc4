"""The reference pages: the commands from their parsers, the spec from its JSON Schema, findings from their register.

`python -m ci_compiler.cli.reference .github/docs/reference` writes them; a test compares them with the code.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.program import Program
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.documents.output import output_schemas
from ci_compiler.errors import ExitCode
from ci_compiler.files.drift import MARK
from ci_compiler.register import pages as pages_of_findings
from ci_compiler.spec.schema import schema
from ci_compiler.units import markdown_table

PROGRAMS = (COMPILE, RUNNER)
"""The commands of this package."""

OUTPUT = (
    "What commands print with `--json`. [`output.schemas.json`](output.schemas.json) has the JSON Schema of each. "
    "`ci-compile plan --schema` prints that of the plan. New keys may be added."
)

NOTE = f"<!-- {MARK}'s own code: `python -m ci_compiler.cli.reference .github/docs/reference`. Do not edit. -->"


def pages(programs: Iterable[Program] = PROGRAMS) -> dict[str, str]:
    """The pages, by their path in the reference folder."""
    return {
        "commands.md": commands(programs),
        "output.md": output(),
        "output.schemas.json": json.dumps(output_schemas(), indent=1, ensure_ascii=False) + "\n",
        "spec.md": spec(),
        **{f"findings/{file}": f"{NOTE}\n\n{text}" for file, text in pages_of_findings().items()},
    }


def output() -> str:
    """What `--json` prints, command by command."""
    parts = [NOTE, "", "# JSON output", "", OUTPUT, ""]
    for name, root in output_schemas().items():
        parts += [f"## {name}", "", f"{root['description']}", ""]
        parts += list(_object(root, root, "", 3))
        direct = [one for one in root["$defs"].items() if "properties" not in root]
        for title, rule in direct:
            parts += [f"### `{title}` of {name}", "", f"{rule['description']}", ""]
            rows = [_key_row(key, _resolved(root, raw), required=False) for key, raw in rule["properties"].items()]
            parts += [markdown_table(("key", "is"), (row[:2] for row in rows)), ""]
    return "\n".join(parts).rstrip() + "\n"


def commands(programs: Iterable[Program]) -> str:
    """The commands with their subcommands and options."""
    parts = [NOTE, "", "# Commands", ""]
    for program in programs:
        parts += [f"## {program.name}", "", program.purpose, ""]
        if program.default:
            parts += list(_usage(program, program.default, program.name))
        for name, purpose in program.commands.items():
            parts += [f"### {program.name} {name}", "", f"{purpose[0].upper()}{purpose[1:]}.", ""]
            parts += list(_usage(program, name, f"{program.name} {name}"))
    codes = markdown_table(("code", "meaning"), [(code.value, code.meaning) for code in ExitCode])
    return "\n".join([*parts, "## Exit codes", "", codes]) + "\n"


def _usage(program: Program, command: str, name: str) -> Iterator[str]:
    parser = program.parser_of(command, name)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    yield f"```\n{usage}\n```\n"  # on one line, whatever the width of the terminal
    rows = [row for action in parser._actions for row in _row(action)]  # noqa: SLF001  (argparse has no other way)
    if rows:
        yield f"{markdown_table(('option', 'does'), rows)}\n"


def _row(action: argparse.Action) -> Iterator[tuple[str, str]]:
    if action.help in {None, argparse.SUPPRESS} or "--help" in action.option_strings:
        return
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    choices = f"{{{','.join(map(str, action.choices))}}}" if action.choices else metavar
    names = ", ".join(action.option_strings) or choices
    value = "" if action.nargs == 0 or not action.option_strings else f" {choices}"
    yield (
        f"`{names}{value}`",
        str(action.help) % {"default": action.default, "choices": ", ".join(map(str, action.choices or ()))},
    )


def spec(root: Mapping[str, Any] | None = None) -> str:
    """Every key of the spec, or of another file with the schema `root`, with its type, default and an example."""
    root = schema() if root is None else root
    parts = [NOTE, "", "# The spec", "", str(root["description"]), ""]
    parts += list(_object(root, root, "", 2))
    return "\n".join(parts)


def _object(root: Mapping[str, Any], rule: Mapping[str, Any], path: str, level: int) -> Iterator[str]:
    """The table of an object's keys, then the objects among them."""
    required = set(rule.get("required", ()))
    rows: list[tuple[str, str, str]] = []
    nested: list[tuple[str, Mapping[str, Any]]] = []
    for key, raw in rule.get("properties", {}).items():
        sub = _resolved(root, raw)
        rows.append(_key_row(key, sub, required=key in required))
        if inner := _inner(root, sub):
            nested.append((f"{path}.{key}".removeprefix(".") + inner[0], inner[1]))
    if rows:
        yield f"{markdown_table(('key', 'is', 'default'), rows)}\n"
    for name, sub in nested:
        yield f"{'#' * min(level, 4)} `{name}`\n"
        if description := sub.get("description"):
            yield f"{description}\n"
        yield from _object(root, sub, name, level + 1)


def _resolved(root: Mapping[str, Any], rule: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in rule:
        return rule
    target = root["$defs"][rule["$ref"].removeprefix("#/$defs/")]
    return {**target, **{key: value for key, value in rule.items() if key != "$ref"}}


def _inner(root: Mapping[str, Any], rule: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """The object in a key's value, directly, by name or in a list; None if there is no object with fixed keys."""
    if "properties" in rule:
        return "", rule
    for key, suffix in (("additionalProperties", ".NAME"), ("items", "[]")):
        sub = rule.get(key)
        if isinstance(sub, Mapping) and "properties" in (found := _resolved(root, sub)):
            return suffix, found
    return None


def _key_row(key: str, rule: Mapping[str, Any], *, required: bool) -> tuple[str, str, str]:
    said = rule.get("description") or rule.get("title") or ""
    if "enum" in rule:
        said = f"{said} One of {', '.join(f'`{choice}`' for choice in rule['enum'])}."
    if examples := rule.get("examples"):
        said = f"{said} Example: `{json.dumps(examples[0], ensure_ascii=False)}`"
    default = "required" if required else f"`{json.dumps(rule['default'])}`" if "default" in rule else ""
    return f"`{key}`", said.strip(), default


def main() -> None:
    """Writes the pages into the folder that is named, and removes the pages of findings that are gone."""
    folder = Path(sys.argv[1])
    shutil.rmtree(folder / "findings", ignore_errors=True)
    (folder / "findings").mkdir(parents=True)
    for name, text in pages().items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
