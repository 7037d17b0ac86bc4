"""The reference pages: both commands from their parsers, the spec from its JSON Schema.

`python -m ci_compiler.reports.reference DIR` writes them; a test compares them with what the code says now.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ci_compiler.cli.app import INTERRUPTED, Program, parser_of
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.output import MARK
from ci_compiler.runners.facts import DEPRECATED
from ci_compiler.spec.schema import schema

NOTE = f"<!-- {MARK}'s own code: `python -m ci_compiler.reports.reference .github/docs/reference`. Do not edit. -->"


def pages() -> dict[str, str]:
    """The pages by file name."""
    return {"commands.md": commands(), "spec.md": spec()}


def commands() -> str:
    """Both commands with their subcommands and options."""
    parts = [NOTE, "", "# Commands", ""]
    for program in (COMPILE, RUNNER):
        parts += [f"## {program.name}", "", program.purpose, ""]
        if program.default:
            parts += list(_usage(program, program.default, program.name))
        for name, purpose in program.commands.items():
            parts += [f"### {program.name} {name}", "", f"{purpose[0].upper()}{purpose[1:]}.", ""]
            parts += list(_usage(program, name, f"{program.name} {name}"))
    codes = [
        "## Exit codes",
        "",
        "| code | meaning |",
        "|---|---|",
        "| 0 | done |",
        "| 1 | findings, or drift |",
        "| 2 | the input is wrong; nothing was written |",
        f"| {DEPRECATED} | `ci-runner start`: GitHub no longer serves the runner's version |",
        f"| {INTERRUPTED} | interrupted from the keyboard |",
    ]
    return "\n".join([*parts, *codes]) + "\n"


def _usage(program: Program, command: str, name: str) -> Iterator[str]:
    parser = parser_of(program, command, name)
    yield "```"
    yield _one_width(parser.format_usage().removeprefix("usage: ").rstrip())
    yield "```"
    yield ""
    rows = [row for action in parser._actions for row in _row(action)]  # noqa: SLF001  (argparse has no other way)
    if rows:
        yield "| option | does |"
        yield "|---|---|"
        yield from rows
        yield ""


def _one_width(usage: str) -> str:
    """The usage in one line, whatever the terminal's width was."""
    return " ".join(usage.split())


def _row(action: argparse.Action) -> Iterator[str]:
    if action.help in {None, argparse.SUPPRESS} or "--help" in action.option_strings:
        return
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    choices = f"{{{','.join(map(str, action.choices))}}}" if action.choices else metavar
    names = ", ".join(action.option_strings) or choices
    value = "" if action.nargs == 0 or not action.option_strings else f" {choices}"
    yield f"| `{names}{value}` | {_cell(str(action.help))} |"


def spec() -> str:
    """Every key of the spec with its form, default and an example."""
    parts = [NOTE, "", "# The spec", "", str(schema()["description"]), ""]
    parts += list(_object(schema(), "", 2))
    return "\n".join(parts)


def _object(rule: Mapping[str, Any], path: str, level: int) -> Iterator[str]:
    """The table of an object's keys, then the objects among them."""
    required = set(rule.get("required", ()))
    rows: list[str] = []
    nested: list[tuple[str, Mapping[str, Any]]] = []
    for key, raw in rule.get("properties", {}).items():
        sub = _resolved(raw)
        rows.append(_key_row(key, sub, required=key in required))
        if inner := _inner(sub):
            nested.append((f"{path}.{key}".removeprefix(".") + inner[0], inner[1]))
    if rows:
        yield "| key | is | default |"
        yield "|---|---|---|"
        yield from rows
        yield ""
    for name, sub in nested:
        yield f"{'#' * min(level, 4)} `{name}`"
        yield ""
        if description := sub.get("description"):
            yield str(description)
            yield ""
        yield from _object(sub, name, level + 1)


def _resolved(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in rule:
        return rule
    target = schema()["$defs"][rule["$ref"].removeprefix("#/$defs/")]
    return {**target, **{key: value for key, value in rule.items() if key != "$ref"}}


def _inner(rule: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """The object that a key holds, or holds by name or in a list; None for none with keys of its own."""
    if "properties" in rule:
        return "", rule
    for key, suffix in (("additionalProperties", ".NAME"), ("items", "[]")):
        sub = rule.get(key)
        if isinstance(sub, Mapping) and "properties" in (found := _resolved(sub)):
            return suffix, found
    return None


def _key_row(key: str, rule: Mapping[str, Any], *, required: bool) -> str:
    said = rule.get("description") or rule.get("title") or ""
    if "enum" in rule:
        said = f"{said} One of {', '.join(f'`{choice}`' for choice in rule['enum'])}."
    if examples := rule.get("examples"):
        said = f"{said} Example: `{json.dumps(examples[0], ensure_ascii=False)}`"
    default = "required" if required else f"`{json.dumps(rule['default'])}`" if "default" in rule else ""
    return f"| `{key}` | {_cell(said.strip())} | {default} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Writes the pages into the folder that is named."""
    folder = Path(sys.argv[1])
    for name, text in pages().items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
