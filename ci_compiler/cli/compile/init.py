"""`ci-compile init`: writes a first spec with the files that it names, and its JSON Schema for editors.

At a terminal, or with options that describe a fleet, it also writes what the spec compiles to, and lists what is
missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from ci_compiler.checkout import head_branch
from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_findings
from ci_compiler.cli.drift import missing_recipes
from ci_compiler.cli.progress import progress
from ci_compiler.cli.questions import QUESTIONS, TEMPLATE, answered, asked, at_terminal
from ci_compiler.cli.where import SCHEMA_BESIDE, SPEC, root_of
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, about, escaped, nearest, wrong
from ci_compiler.files.atomic import change_folders, reporting
from ci_compiler.files.drift import GITHUB, apply, compare, in_the_way, obstacle, writing
from ci_compiler.outside import bytes_of
from ci_compiler.plan.pipeline import plan
from ci_compiler.recipes.nixpkgs_hash import fetched_hash, with_hashes
from ci_compiler.recipes.render import recipes, territories
from ci_compiler.reports.missing import missing
from ci_compiler.runner.scale_sets import WITHOUT_CACHE, needs_cache
from ci_compiler.spec.build import STARTERS, parse_spec, starters
from ci_compiler.spec.carried import template_paths
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.spec.schema import schema_text
from ci_compiler.sync.compiled import compile_files
from ci_compiler.units import counted
from ci_compiler.update.answers import OWNER, PUBLISH_TO, with_branch
from ci_compiler.variant import recipe_names


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--template",
        choices=starters(),
        help="what to start from: a package, or a way to build (default: torch; at a terminal, asked)",
    )
    parser.add_argument(
        "--owner", metavar="OWNER", help="the owner of the repository, or the FloxHub organisation to publish to"
    )
    parser.add_argument(
        "--gpus",
        metavar="GPUS",
        help="the GPUs of your machines: products, or what `nvidia-smi -L` prints (`none`: none)",
    )
    parser.add_argument(
        "--builder", metavar="CPU", help="the CPU of the machine that builds, or `github` for a machine of GitHub"
    )
    parser.add_argument(
        "--publish-to",
        metavar="PLACE",
        help="`floxhub`, or the address and the public key of a Nix binary cache, with a blank between",
    )
    parser.add_argument(
        "--toolkit",
        metavar="SOURCE",
        help="where hosted jobs install ci-compiler from: git+https://HOST/PATH@COMMIT, or a wheel with its hash",
    )
    parser.add_argument(
        "--kubernetes",
        action="store_true",
        help="write what jobs in Kubernetes need: a binary cache "
        "(`--publish-to`), and the hashes of nixpkgs, which are fetched",
    )
    options.shared(parser, "root")


def run(arguments: argparse.Namespace) -> int:
    """Writes all files, or none; returns 1 if the next step would fail.

    Raises InputError if a file is in the way, or an answer is wrong or missing.
    """
    root, ask = root_of(arguments), at_terminal()
    given = {question: getattr(arguments, question.name) for question in QUESTIONS}
    whole = (
        ask
        or arguments.kubernetes
        or any(answer is not None for question, answer in given.items() if question.option != OWNER)
    )
    files = _files(_template(arguments.template, ask=ask))
    if problems := {path: problem for path, text in files.items() if (problem := _problem(root, path, text))}:
        raise InputError(in_the_way(path.as_posix(), problem) for path, problem in problems.items())
    text = with_branch(files[SPEC], head_branch(root) if whole else "")
    for question, answer in given.items():
        if whole or answer is not None or question.option != OWNER:
            text = answered(text, question, answer, root, ask=ask)
    spec = parse_spec(text.encode(), shown=SPEC.as_posix())
    if arguments.kubernetes:
        text, spec = _for_pods(text, spec)
    files[SPEC] = text
    return _compiled(root, spec, files) if whole else _first(root, spec, files)


def _for_pods(text: str, spec: Spec) -> tuple[str, Spec]:
    """The spec with what jobs need whose pods share no store: a cache, and the hashes for what is published into it."""
    if needs_cache(spec):
        raise wrong("--kubernetes", Code.PODS_WITHOUT_CACHE, f"{WITHOUT_CACHE}; give it with {PUBLISH_TO}")
    with progress("fetching nixpkgs"):
        text, _ = with_hashes(text, spec, fetched_hash)
    return text, parse_spec(text.encode(), shown=SPEC.as_posix())


def _template(given: str | None, *, ask: bool) -> str:
    """The template: `given`, or else the answer of a person, or else the first."""
    known = starters()
    while ask and given is None:
        answer = asked(f"{TEMPLATE} ({', '.join(known)})", known[0]) or known[0]
        if answer in known:
            return answer
        print_findings([about("--template", Code.WRONG_OPTION, f"{answer!r} is no template{nearest(answer, known)}")])
    return given or known[0]


def _first(root: Path, spec: Spec, files: Mapping[Path, str]) -> int:
    """Writes the sources alone, which are to be edited."""
    _write(root, files)
    compiled = spec.backend.has_recipes and not any(
        package.may_be(RecipeKind.OWN) for package in spec.packages.values()
    )
    commands = "`ci-compile` and `ci-compile recipes`" if compiled else "`ci-compile`"
    print(f"wrote {_names(files)}; edit the spec, then run {commands}")
    if "==" in spec.toolkit:
        note(f"hosted jobs will install {spec.toolkit} from the package index; set `toolkit` if it has no such release")
    else:
        note(f"hosted jobs will install ci-compiler from {spec.toolkit} (`toolkit` in the spec)")
    return 0


def _compiled(root: Path, spec: Spec, files: Mapping[Path, str]) -> int:
    """Writes the sources and what they compile to, and prints what is missing; 1 where nothing can be compiled yet."""
    try:
        decided = plan(spec)
    except InputError as error:  # the hash of nixpkgs, which only a download tells
        _write(root, files)
        print(f"wrote {_names(files)}")
        print_findings(error.findings, root=root)
        note("run `ci-compile hash`, then `ci-compile` and `ci-compile recipes`")
        return 1
    branch, templates = next(iter(spec.branches)), {path: files[Path(path)] for path in template_paths(spec)}
    own: Mapping[str, str] = recipes(spec, decided.judged, branch, templates)
    made = {**compile_files(decided), **own}
    places = [GITHUB, *(territories(spec, decided.judged, branch) if own else ())]
    changes = compare(root, made, places)
    _write(root, files)
    apply(root, made, changes, places)
    recipe_count = f" and {counted(len(recipe_names(own)), 'recipe')}" if own else ""
    print(f"wrote {_names(files)}; compiled {len(made) - len(own)} files{recipe_count} of {branch}")
    print("missing, each with what makes it:", *map(escaped, missing(decided, root)), sep="\n  ")
    print_findings(absent := missing_recipes(spec, decided.judged.cells, branch, root))
    return 1 if absent else 0


def _names(files: Mapping[Path, str]) -> str:
    *names, last = [SPEC.as_posix(), *(path.as_posix() for path in files if path != SPEC)]
    return f"{', '.join(names)} and {last}"


def _files(template: str) -> dict[Path, str]:
    """The files that `template` writes, by path. The spec comes last, so that it is there only if all others are."""
    folder = STARTERS / template
    every = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    paths = [path for path in every if "__pycache__" not in path.parts]  # pip compiles what it installs
    texts = {path: (folder / path).read_text("utf-8") for path in paths}
    return {SCHEMA_BESIDE: schema_text(), **{path: texts[path] for path in paths if path != SPEC}, SPEC: texts[SPEC]}


def _problem(root: Path, path: Path, text: str) -> str:
    """Why the file at `path` cannot be written; '' if it can, or is there already with this text."""
    if problem := obstacle(root, path.as_posix()):
        return problem
    target = root / path
    if path == SCHEMA_BESIDE or not target.exists():
        return ""
    if path != SPEC and bytes_of(target) == text.encode():
        return ""
    return "exists already; edit it, or move it away first"


def _write(root: Path, files: Mapping[Path, str]) -> None:
    """Writes `files`, each of which is in a folder, in one step. Raises InputError."""
    folders: dict[Path, dict[str, str | None]] = {}
    for path, text in files.items():
        folders.setdefault(root / path.parent, {})[path.name] = text
    folders[root / SPEC.parent] = folders.pop(root / SPEC.parent)  # the last one, where it must be one by one
    with reporting(root):
        for folder in folders:
            folder.parent.mkdir(parents=True, exist_ok=True)
        with writing(*folders):
            change_folders(folders)
