"""Recipes rendered from a template: a Nix file of the repository with placeholders such as `@capability@`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place
from ci_compiler.files.drift import MARK
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.subject import Subject
from ci_compiler.spec.carried import template_paths
from ci_compiler.spec.model import Spec
from ci_compiler.spec.placeholders import fill, unknown


def check(spec: Spec, templates: Mapping[str, str]) -> None:
    """Raises InputError for each template that is missing and each placeholder that is unknown."""
    findings = []
    for package in spec.packages.values():
        if package.template not in templates and package.template in template_paths(spec):
            message = f"no file {package.template} here; it is the template of {package.name}'s recipes"
            findings.append(spec.finding(("packages", package.name, "template"), Code.TEMPLATE_MISSING, message))
    findings += [finding for path, text in templates.items() for finding in _unknown(path, text)]
    if findings:
        raise InputError(findings)


def render(subject: Subject, text: str) -> str:
    """The recipe of a variant from the text of its template."""
    path, spec = subject.package.template, subject.spec.document.file
    head = nix.comment(f"{MARK} from {spec} and {path}. Do not edit: change them, then run `ci-compile recipes`.")
    return f"{head}\n{fill(text, subject.values).rstrip()}\n"


def _unknown(path: str, text: str) -> Iterator[Finding]:
    for offset, message in unknown(text):
        line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
        place = Place(file=path, line=line, column=column)
        yield Finding(place=place, code=Code.UNKNOWN_PLACEHOLDER, message=message)
