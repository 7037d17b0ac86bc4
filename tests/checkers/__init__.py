"""Judges GitHub workflow files with the real tools, offline; and evaluates GitHub's expressions.

| function | tool | finds |
|---|---|---|
| `jsonschema_problems`, `schema_problems` | check-jsonschema | wrong keys, wrong types |
| `language_service_problems` | GitHub's own parser | what GitHub refuses, unknown names in contexts, wrong calls |
| `actionlint_problems` | actionlint | expression types, needs, labels, wrong calls |
| `shellcheck_problems` | shellcheck | faults in `run:` scripts |
| `zizmor_problems` | zizmor | injection, unpinned actions, permissions, credentials |
| `expression_values`, `condition_values` | GitHub's own evaluator | truth tables |

Every function takes many files or expressions and starts one process. A missing tool skips the test that needs it, or
fails it where the environment says `CI_COMPILER_TOOLS=required`.
"""

from .expressions import ExpressionError, condition_value, condition_values, expression_value, expression_values
from .judges import (
    actionlint_problems,
    jsonschema_problems,
    language_service_problems,
    schema_problems,
    zizmor_problems,
)
from .scripts import Script, scripts, shellcheck_problems
from .tools import require

__all__ = [
    "ExpressionError",
    "Script",
    "actionlint_problems",
    "condition_value",
    "condition_values",
    "expression_value",
    "expression_values",
    "jsonschema_problems",
    "language_service_problems",
    "require",
    "schema_problems",
    "scripts",
    "shellcheck_problems",
    "zizmor_problems",
]
