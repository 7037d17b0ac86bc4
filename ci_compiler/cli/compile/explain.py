"""`ci-compile explain NAME`: everything about one variant, or the documentation of a finding's code."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ci_compiler.cli import options
from ci_compiler.cli.console import print_json, print_markdown
from ci_compiler.codes import Code
from ci_compiler.errors import nearest, wrong
from ci_compiler.register import page, register, url

if TYPE_CHECKING:
    from ci_compiler.plan.lookup import BuiltVariant
    from ci_compiler.plan.pipeline import Plan


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("name", metavar="NAME", help="a variant's name, or the code of a finding")
    options.shared(parser, "json", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Explains; returns 0 for a code and for a variant that is built, 1 for a variant that is not.

    Raises InputError for a name that is neither.
    """
    if arguments.name not in set(Code):
        return _explain_variant(arguments)
    entry = register()[Code(arguments.name)]
    if arguments.json:
        shown = {key: value for key, value in asdict(entry).items() if value and key != "tested"}
        print_json(shown | {"url": url(entry.code)})
    else:
        print_markdown(page(entry))
    return 0


def _explain_variant(arguments: argparse.Namespace) -> int:
    from ci_compiler.cli.where import plan_of
    from ci_compiler.plan.lookup import explain

    plan = plan_of(arguments)
    explanation = explain(plan, arguments.name)
    if explanation.unknown:
        near = nearest(arguments.name, Code, label="did you mean the finding", only_near=True)
        raise wrong("NAME", Code.UNKNOWN_VARIANT, explanation.unknown + ("" if explanation.kind else near))
    if arguments.json:
        absent = [{"reason": variant.reason, "place": str(variant.place)} for variant in explanation.absent]
        print_json(
            {
                "name": explanation.name,
                "built": [_as_json(plan, built) for built in explanation.built],
                "absent": absent,
            }
        )
    else:
        for index, one in enumerate(explanation.built):
            print("\n" * bool(index) + explanation.name)
            for key, value in _lines(plan, one):
                print(f"  {key:<12} {value}")
        for gone in explanation.absent:
            print(f"{explanation.name} is not built: {gone.reason}\n  {'spec':<12} {gone.place}")
    return 0 if explanation.built else 1


def _seed(plan: Plan, one: BuiltVariant) -> str:
    """The variant from whose recipe the compiler seed is made that `one` takes; '' if it takes none."""
    from ci_compiler.recipes.seeds import seeder_of
    from ci_compiler.variant import variant_name

    seeder = seeder_of(plan.spec, plan.judged.cells, one.cell, one.variant.package)
    return variant_name(one.variant.package, seeder.suffix) if seeder else ""


def _linked(one: BuiltVariant) -> str:
    """What the libraries are built for that are linked into a compiled recipe; '' for any other."""
    from ci_compiler.recipes.capabilities import linked_libraries
    from ci_compiler.spec.model import RecipeKind

    package = one.spec.packages[one.variant.package]
    compiled = one.spec.backend.has_recipes and package.kind_of(one.variant.name) is RecipeKind.COMPILED
    return linked_libraries(one.spec, package, one.cell) if compiled else ""


def _as_json(plan: Plan, one: BuiltVariant) -> dict[str, Any]:
    from ci_compiler.plan.document import route_row, suites_row, variant_row
    from ci_compiler.plan.expected import as_row, expected_failures
    from ci_compiler.plan.needs import Needs

    spec, seed = plan.spec, _seed(plan, one)
    expected = [as_row(entry) for entry in expected_failures(spec, one.variant.name, one.cell.branch).values()]
    return {
        **variant_row(Needs(spec, plan.judged.cells), one.cell, one.variant),
        "spec": str(one.selected_by),
        "workflow": one.shard.path,
        "job": one.job,
        "route": route_row(one.route),
        "suites": suites_row(one.route),
        **({"expected": expected} if expected else {}),
        **({"compiler-seed": seed} if seed else {}),
        "dispatch": one.dispatch,
    }


def _edges(plan: Plan, one: BuiltVariant) -> list[tuple[str, str]]:
    """The variants of other cells that `one` is built with, by the kind of the edge."""
    from ci_compiler.plan.needs import Needs
    from ci_compiler.spec.edges import GATHERS, NEEDS

    needs = Needs(plan.spec, plan.judged.cells)
    links = list(needs.links(one.cell, one.variant.package)) if plan.spec.has_edges else []
    found = {kind: [link.variant.name for link in links if link.kind == kind] for kind in (NEEDS, GATHERS)}
    return [(kind, ", ".join(names)) for kind, names in found.items() if names]


def _lines(plan: Plan, one: BuiltVariant) -> list[tuple[str, str]]:
    from ci_compiler.plan.expected import expected_failures, in_words
    from ci_compiler.reports.offers import recalled

    expected = expected_failures(one.spec, one.variant.name, one.cell.branch)
    return [
        ("branch", one.cell.branch),
        ("version", one.version),
        *([("recalled", because)] if (because := recalled(one.spec, one.cell.branch, one.variant)) else []),
        ("spec", str(one.selected_by)),
        ("recipe", one.recipe),
        *_edges(plan, one),
        *([("seed", f"made from the recipe of {seed}")] if (seed := _seed(plan, one)) else []),
        *([("libraries", linked)] if (linked := _linked(one)) else []),
        ("workflow", one.shard.path),
        ("job", one.job),
        *one.stages(),
        *(("expected", f"{stage} fails: {in_words(entry)}") for stage, entry in expected.items()),
        ("dispatch", one.dispatch),
    ]
