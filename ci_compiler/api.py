"""The stable names for programs that use ci-compiler: what the commands do, as functions.

A name keeps its meaning and its parameters within a minor version; the changelog says what changes. Anything that is
imported from elsewhere in the package may change without notice.
"""

from ci_compiler.adoption.evaluator import Evaluation, evaluate, find_recipes
from ci_compiler.documents.build_matrix import text as build_matrix
from ci_compiler.documents.overlay.written import overlay
from ci_compiler.documents.site.page import page as finder_page
from ci_compiler.errors import Finding, InputError, Place
from ci_compiler.files.drift import FLOX, GITHUB, FileChange, Territory, apply, compare, differences
from ci_compiler.hardware.machine import Machine
from ci_compiler.hardware.products import machine
from ci_compiler.plan.document import document as plan_document
from ci_compiler.plan.document import plan_schema
from ci_compiler.plan.lookup import Explanation, explain
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.recipes.render import recipes
from ci_compiler.reports.diff import PlanDifference, diff
from ci_compiler.reports.forecast import Forecast, forecast
from ci_compiler.reports.offers import Wishes
from ci_compiler.reports.select import Recommendation, select
from ci_compiler.spec.build import bundled_spec, load_spec, parse_spec
from ci_compiler.spec.model import Spec
from ci_compiler.spec.schema import schema
from ci_compiler.sync.compiled import compile_files

__all__ = [
    "FLOX",
    "GITHUB",
    "Evaluation",
    "Explanation",
    "FileChange",
    "Finding",
    "Forecast",
    "InputError",
    "Machine",
    "Place",
    "Plan",
    "PlanDifference",
    "Recommendation",
    "Spec",
    "Territory",
    "Wishes",
    "apply",
    "build_matrix",
    "bundled_spec",
    "compare",
    "compile_files",
    "diff",
    "differences",
    "evaluate",
    "explain",
    "find_recipes",
    "finder_page",
    "forecast",
    "load_spec",
    "machine",
    "overlay",
    "parse_spec",
    "plan",
    "plan_document",
    "plan_schema",
    "recipes",
    "schema",
    "select",
]
