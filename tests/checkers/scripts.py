"""The `run:` scripts of workflows and composite actions, judged by shellcheck."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from .tools import files, require, run

EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)

# What shellcheck says of the word that stands for an expression, and would not say of the expression's value:
# a constant test, comparison, case or loop. They count again in a script without expressions.
OF_CONSTANTS = "SC2043,SC2050,SC2157,SC2194"

# After the runner's own command lines: shellcheck learns the dialect, and that a failing command ends the script.
# https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax#jobsjob_idstepsshell
SHEBANGS = {"bash": "#!/bin/bash -e", "sh": "#!/bin/sh -e"}
PREAMBLE = 2  # lines that `checked_text` puts before the script


@dataclass(frozen=True, slots=True)
class Script:
    """A `run:` text, the line of the file that its first line stands on, and its shell, `bash` where none is named."""

    path: Path
    line: int
    shell: str
    text: str

    @property
    def checked_text(self) -> str:
        """The script as shellcheck gets it: two lines more, and a word as long in every expression's place."""
        silenced = f"# shellcheck disable={OF_CONSTANTS}" if EXPRESSION.search(self.text) else "#"
        body = EXPRESSION.sub(lambda found: re.sub(r"[^\n]", "_", found[0]), self.text)
        return f"{SHEBANGS[self.shell]}\n{silenced}\n{body}"


def scripts(path: Path) -> Iterator[Script]:
    """Every `run:` of a workflow or composite action that a shell reads (not python, pwsh and the like)."""
    root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    outer = _default_shell(root, "bash")
    owners = [*_values(_get(root, "jobs")), *filter(None, [_get(root, "runs")])]
    for owner in owners:
        inherited = _default_shell(owner, outer)
        for step in _items(_get(owner, "steps")):
            text = _get(step, "run")
            shell = (_text(_get(step, "shell")) or inherited).split()[0]  # `bash -u {0}` is bash as well
            if isinstance(text, yaml.ScalarNode) and shell in SHEBANGS:
                block = text.style in {"|", ">"}
                yield Script(path, text.start_mark.line + (2 if block else 1), shell, text.value)


def shellcheck_problems(paths: Iterable[Path]) -> list[str]:
    """The findings of shellcheck, style included; a script that many jobs share is reported at its first place.

    The line is exact in a literal block (`run: |`), the first line's neighbourhood in any other style. It sees each
    script alone: not whether a variable is in `env:`, nor whether an expression's value needs quotes (zizmor does).
    """
    first: dict[tuple[str, str], Script] = {}
    unread = []
    for path in files(paths):
        try:
            for script in scripts(path):
                first.setdefault((script.shell, script.text), script)
        except yaml.YAMLError as error:
            unread.append(f"{path}: {' '.join(str(error).split())}")
    return unread + (_judged(list(first.values())) if first else [])


def _judged(judged: list[Script]) -> list[str]:
    with TemporaryDirectory() as folder:
        written = {str(Path(folder, f"{number}.sh")): script for number, script in enumerate(judged)}
        for name, script in written.items():
            Path(name).write_text(script.checked_text, encoding="utf-8")
        command = [require("shellcheck"), "--norc", "--severity", "style", "--format", "json1", *written]
        report = json.loads(run(command, statuses=(0, 1)).stdout)
    return [_problem(written[comment["file"]], comment) for comment in report["comments"]]


def _problem(script: Script, comment: dict[str, object]) -> str:
    line = script.line + int(str(comment["line"])) - PREAMBLE - 1
    return f"{script.path}:{line}: SC{comment['code']} {comment['message']}"


def _get(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """A mapping's value; None where the node is no mapping or has no such key."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _values(node: yaml.Node | None) -> list[yaml.Node]:
    return [value for _, value in node.value] if isinstance(node, yaml.MappingNode) else []


def _items(node: yaml.Node | None) -> list[yaml.Node]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _default_shell(owner: yaml.Node | None, outer: str) -> str:
    return _text(_get(_get(_get(owner, "defaults"), "run"), "shell")) or outer
