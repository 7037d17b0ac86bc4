"""The questions of `ci-compile init`: asked at a terminal, each unless its option answers it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ci_compiler.cli.console import note, print_findings
from ci_compiler.cli.toolkit import toolkit
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, Place, about, raise_any, wrong
from ci_compiler.github.access import repository_of
from ci_compiler.hardware import CPU
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.outside import is_typed, typed_line
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.model import Spec
from ci_compiler.update import answers
from ci_compiler.update.answers import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionQuestion:
    """A question: the option that answers it, its words, and what writes the answer into the spec.

    `usual` is the answer of an empty line: None where there is none, '' for what the starter has, which `kept` says.
    `asked` is whether a spec has the question at all.
    """

    option: str
    words: str
    write: Answered
    usual: Callable[[Path], str | None] = lambda _: ""
    kept: str = ""
    asked: Callable[[Spec], bool] = lambda _: True

    @property
    def name(self) -> str:
        """The name of the option's value."""
        return self.option.lstrip("-").replace("-", "_")


def _owner_of(root: Path) -> str | None:
    try:
        return repository_of(os.environ, root).partition("/")[0]
    except InputError:
        return None


_LISTS = family_of(DEFAULT).tool
"""The program whose lines can be pasted."""

TEMPLATE = "What do you build?"
"""The first question, whose answer has the others."""

QUESTIONS = (
    OptionQuestion(
        option=answers.OWNER,
        words="Who owns the repository on GitHub, or the FloxHub organisation?",
        write=answers.with_owner,
        usual=_owner_of,
    ),
    OptionQuestion(
        option=answers.GPUS,
        words=f"Which GPUs do your machines have? Products, or the lines of `{_LISTS} -L` and an empty one",
        write=answers.with_gpus,
        kept="the template's",
        asked=lambda spec: any(gpu != CPU for gpu in spec.gpus),
    ),
    OptionQuestion(
        option=answers.BUILDER,
        words="Which CPU does the machine that builds have? A model, or `github` for a machine of GitHub",
        write=answers.with_builder,
        kept="the template's",
    ),
    OptionQuestion(
        option=answers.PUBLISH_TO,
        words="Where do results go? `floxhub`, or the address and the public key of a Nix binary cache",
        write=answers.with_destination,
        kept=answers.FLOXHUB,
        asked=lambda spec: spec.backend.has_recipes,
    ),
    OptionQuestion(
        option=answers.TOOLKIT,
        words="Where do hosted jobs install ci-compiler from? `git+https://HOST/PATH@COMMIT`, or a wheel with its hash",
        write=answers.with_toolkit,
        usual=toolkit,
        kept="a release from the package index",
    ),
)
"""The questions after the first, in their order."""


def at_terminal() -> bool:
    """Whether somebody can be asked."""
    return is_typed() and sys.stderr.isatty()


def answered(text: str, question: OptionQuestion, given: str | None, root: Path, *, ask: bool) -> str:
    """The text of a spec with the answer to `question`: `given`, or else asked for, or else the usual one.

    A wrong answer of a person is asked for again. Raises InputError for a wrong or missing answer of an option.
    """
    spec, usual = parse_spec(text.encode(), shown=question.option), question.usual(root)
    if given is None and not question.asked(spec):
        return text
    if given is not None or not ask or (usual and question.option == answers.TOOLKIT):
        if given is None and usual is None:
            raise wrong(question.option, Code.WRONG_OPTION, f"is missing: {question.words}")
        return _written(text, question, spec, (usual or "") if given is None else given)
    while True:
        try:
            if answer := asked(question.words, usual or question.kept, lines=question.option == answers.GPUS):
                return _written(text, question, spec, answer)
            if usual is not None:
                return _written(text, question, spec, usual)
        except InputError as error:
            print_findings(error.findings)


def asked(words: str, usual: str, *, lines: bool = False) -> str:
    """The line that a person types, '' for an empty one; with `lines`, those of a tool up to an empty one.

    Raises SystemExit at the end of the input.
    """
    note(words)
    print(f"[{usual}] " if usual else "> ", end="", file=sys.stderr, flush=True)
    answer = line = _line()
    while lines and line and _OF_TOOL.match(answer):
        line = _line()
        answer += f"\n{line}"
    return answer.strip()


_OF_TOOL = re.compile(r"GPU \d+:")
"""How a line of that program begins."""


def _line() -> str:
    line = typed_line()
    if not line:
        note("")
        print_findings([about("init", Code.WRONG_VALUE, "the input ended before the last answer; nothing was written")])
        raise SystemExit(2)
    return line.strip()


def _written(text: str, question: OptionQuestion, spec: Spec, answer: str) -> str:
    made = question.write(spec, text, answer)
    try:
        plan(parse_spec(made.encode(), shown=question.option))
    except InputError as error:
        wrong_ones = [finding for finding in error.findings if finding.code is not Code.NIXPKGS_UNVERIFIED]
        raise_any(replace(finding, place=Place(file=question.option)) for finding in wrong_ones)
    return made
