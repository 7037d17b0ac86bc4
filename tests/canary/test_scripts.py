"""The scripts of the canary's jobs with programs that answer as GitHub, Nix and Flox do; each is made to break."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ci_compiler.canary.assumptions import Verdict, assumptions, complete
from ci_compiler.canary.evidence import written
from ci_compiler.canary.repository import SOURCES, files
from tests.checkers import require
from tests.checkers.tools import run as run_tool
from tests.processes import MINUTES

CURL = r"""#!/bin/bash
# Answers with the code of the first row of $ANSWERS whose pattern the arguments match; the body goes to --output.
while [ $# -gt 0 ]; do
  if [ "$1" = --output ]; then output=$2; fi
  all+=" $1"
  shift
done
cat >/dev/null
while read -r pattern code body; do
  if [[ $all == *$pattern* ]]; then
    [ -z "$output" ] || printf '%s' "$body" >"$output"
    printf '%s' "$code"
    exit 0
  fi
done <<<"$ANSWERS"
exit 7
"""
TAR = """#!/bin/sh
while [ "$1" != --directory ]; do shift; done
printf '#!/bin/sh\\nexit %s\\n' "$RUNNER_EXIT" >"$2/run.sh"
chmod +x "$2/run.sh"
"""
NIX_BUILD = """#!/bin/sh
if [ "$1" = --version ]; then echo 'nix-build (Nix) 2.28.3'; exit; fi
case $* in
  *'--option sandbox false'*) echo "$OVERRIDDEN" >"$SCRATCH/overridden" && echo "$SCRATCH/overridden" ;;
  *) echo "$SANDBOXED" >"$SCRATCH/built" && echo "$SCRATCH/built" ;;
esac
"""
NIX = """#!/bin/sh
case $* in
  *'copy --to'*) exit "${PUSH:-0}" ;;
  *'copy --from'*) exit "${FETCH:-0}" ;;
esac
"""
COMPILE = """#!/bin/sh
[ "$*" = 'evaluate --pins' ] || exit 9
[ -z "$NO_RECIPES" ] || { echo 'note: the spec compiles no recipe' >&2; exit 0; }
exit "${PINS:-0}"
"""
FLOX = """#!/bin/sh
case $1 in
  --version) echo 1.14.0 ;;
  build) exit "${FLOX_BUILD:-0}" ;;
  auth) exit "${FLOX_AUTH:-0}" ;;
  publish) exit "${FLOX_EXIT:-0}" ;;
esac
"""
GIT = """#!/bin/sh
case $1 in
  rev-parse)
    if [ "$2" = HEAD ]; then echo "$TIP"; else echo "$UPSTREAM"; fi
    ;;
  merge-base) exit "${STRANGER:-0}" ;;
  log) case $* in *%P*) echo "$PARENTS" ;; *'[skip ci]'*) echo "$SKIPPED" ;; *) echo "$MANY" ;; esac ;;
  diff-tree) seq "$FILES" ;;
  diff) [ "$2" = --quiet ] || echo "$CHANGED" ;;
  cat-file) exit "${GONE:-0}" ;;
  ls-files) exit "${UNTRACKED:-0}" ;;
esac
"""
DATE = """#!/bin/sh
case $* in *+%H) echo "$HOUR" ;; *) echo 2026-11-23T10:00:00Z ;; esac
"""
PYTHON = f"""#!/bin/sh
case $* in
  '-m venv'*) mkdir -p "$4/$LAYOUT" && touch "$4/$LAYOUT/python.exe" ;;
  *version_info*) exit "${{OLD:-0}}" ;;
  *makedirs*) exit "${{SHORT:-0}}" ;;
  *) exec {sys.executable} "$@" ;;
esac
"""
PROGRAMS = {
    **dict.fromkeys(("python", "python3"), PYTHON),
    "bash.exe": "",
    **{name: f'#!/bin/sh\nexit "${{{name.upper()}:-0}}"\n' for name in ("sysctl", "powershell", "taskkill")},
    "date": DATE,
    "curl": CURL,
    "tar": TAR,
    "nix-build": NIX_BUILD,
    "nix": NIX,
    "ci-compile": COMPILE,
    "flox": FLOX,
    "git": GIT,
}

JOBS = """{"jobs": [\
{"id": 1, "name": "order b", "status": "completed", "conclusion": "success", "started_at": "2026-11-23T10:05:00Z"}, \
{"id": 2, "name": "order a", "status": "completed", "conclusion": "success", "started_at": "2026-11-23T10:00:00Z"}, \
{"id": 3, "name": "order c", "status": "completed", "conclusion": "success", "started_at": "2026-11-23T10:06:00Z"}, \
{"id": 4, "name": "approved a", "status": "waiting", "conclusion": null, "started_at": null}, \
{"id": 5, "name": "approved b", "status": "pending", "conclusion": null, "started_at": null}, \
{"id": 6, "name": "lost", "status": "completed", "conclusion": "failure", "started_at": "2026-11-23T10:00:00Z"}]}"""
REVIEWS = '[{"environments": [{"name": "canary-approval"}]}, {"environments": [{"name": "canary-approval"}]}]'
ANSWERS = f"""\
/canary-events.yml/dispatches 204
/canary-events.yml/runs? 200 {{"total_count": 1}}
/canary-runs.yml/runs? 200 {{"workflow_runs": [{{"id": 4, "run_attempt": 2}}, {{"id": 3, "run_attempt": 1}}]}}
/runs/3/rerun-failed-jobs 201
/canary.yml/runs? 200 {{"total_count": 0}}
/environments/canary-elsewhere 404 {{"message": "Not Found"}}
/environments/canary-approval 200 {{"protection_rules": [{{"type": "wait_timer"}}, {{"type": "required_reviewers"}}]}}
/runs/1/approvals 200 {REVIEWS}
PATCH 200
--data*/issues/7/comments 201 {{"id": 11}}
/issues/7/comments 200
/attestations 422
/check-runs/6/annotations 200 []
/dispatches 403
/contents/ 200
/environments/canary 200 {{"deployment_branch_policy": {{"custom_branch_policies": true}}}}
generate-jitconfig 201 {{"runner": {{"id": 5}}, "encoded_jit_config": "a-key"}}
DELETE 204
/actions/runners/5 404
/jobs?per_page 200 {JOBS}
actions/runs/1 200 {{"display_title": "canary [1]"}}
deployments?environment 200 []
/actions/permissions 200
/actions/runs 200
/actions/workflows 200
/environments 200
/branches 200
/issues 200
/pulls 200
"""
HOLDING = {
    "ANSWERS": ANSWERS,
    "RUNNER_EXIT": "7",
    "SANDBOXED": "yes",
    "OVERRIDDEN": "yes",
    "TIP": "b" * 40,
    "UPSTREAM": "b" * 40,
    "CHANGED": ".github/canary/touch",
    "BEFORE": "a" * 40,
    "GITHUB_SHA": "b" * 40,
    "GITHUB_EVENT_NAME": "workflow_dispatch",
    "GITHUB_API_URL": "https://api.example.org",
    "GITHUB_REPOSITORY": "my-org/my-repository",
    "GITHUB_RUN_ID": "1",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_TOKEN": "a-token",
    "CANARY_SECRET": "a-word",
    "CANARY_ADMIN_TOKEN": "an-admin-token",
    "FLOX_FLOXHUB_TOKEN": "a-flox-token",
    "FLOX_PUBLISH": "publish",
    "OLD_RUNNER": "2.328.0",
    "KIND": "self-hosted",
    "ADDRESSED": "group",
    "CACHE": "file:///cache",
    "FIRST": "success",
    "BY_TOKEN": "success",
    "OVER": "success",
    "OUTPUT": "success",
    "TOO": "1",
    "ONCE": "set",
    "VARIABLE_THEN": "another-word",
    "RUNNER_DEBUG": "1",
    "DEFAULT_BRANCH": "main",
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_REF_NAME": "main",
    "GITHUB_ACTOR": "github-actions[bot]",
    "GITHUB_WORKFLOW_REF": "my-org/my-repository/.github/workflows/canary-events.yml@refs/heads/main",
    "FORK": "false",
    "HOUR": "22",
    "NUMBER": "",
    "FROM": "",
    "BASE": "a" * 40,
    "PARENTS": f"{'a' * 40} {'b' * 40}",
    "HEAD_COMMIT": "",
    "BASE_REF": "refs/heads/main",
    "FAILS": "yes",
    "LAYOUT": "bin",
    "WORD": "given",
    "FLAG": "yes",
    "SENT": "true",
    "MINUTES": "10",
    "SKIPPED": "c" * 40,
    "MANY": "d" * 40,
    "FILES": "301",
    "CANARY_SECONDS": "0",
    "SAME_NAME": "success",
    "STARTED": "1",
    "CANARY_VARIABLE": "a-word",
    "CANARY_ENV": "set",
    "ACTIONS_ID_TOKEN_REQUEST_URL": "https://token.example.org",
    "NIX_STORE_DIR": "/no-such-store",  # root may write to any folder that is there
}
"""The environment in which every assumption holds."""

Scripts = Callable[..., Mapping[str, str]]


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    """Runs scripts by name in a changed environment; returns the facts."""
    require("jq")
    for name, text in PROGRAMS.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text, "utf-8")
        program.chmod(0o755)
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/ci-matrix.yaml").touch()
    for path in ("facts/x", "two/canary-1-past/past.facts", "two/canary-1-observer/observer.facts", "one/past.facts"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x\n", "utf-8")
    (tmp_path / "newest").mkdir()
    (tmp_path / "newest/canary.txt").write_text("2\n", "utf-8")
    for name in ("past", "observer"):
        (tmp_path / f"merged/{name}.facts").parent.mkdir(exist_ok=True)
        (tmp_path / f"merged/{name}.facts").write_text("x\n", "utf-8")

    def run(*names: str, **changed: str) -> Mapping[str, str]:
        path = os.pathsep.join((str(tmp_path / "bin"), os.environ.get("PATH", os.defpath)))
        env = {**HOLDING, "PATH": path, "SCRATCH": str(tmp_path), "TMPDIR": str(tmp_path), **changed}
        for name in names:
            command = [require("bash"), str(SOURCES / f"{name}.sh"), "facts"]
            done = subprocess.run(
                command, cwd=tmp_path, env=env, capture_output=True, encoding="utf-8", timeout=MINUTES, check=False
            )
            assert done.returncode == 0, done.stderr
            (tmp_path / f"facts/{name}.facts").touch()
            if done.stdout:
                (tmp_path / f"facts/{name}.facts").write_text(done.stdout, "utf-8")
        return written(tmp_path / "facts")

    return run


def other(pattern: str, code: str) -> dict[str, str]:
    """An environment in which GitHub answers with another code."""
    return {"ANSWERS": f"{pattern} {code}\n{ANSWERS}"}


RESULTS = {
    "direct.secret": "set",
    "report.listed": "yes",
    "approved.success": "2",
    "approved.together": "no",
    **dict.fromkeys(
        (
            *("job.quiet", "job.start", "job.past", "job.dispatch", "job.elsewhere", "job.dropped"),
            *("job.order-a", "job.order-b", "job.order-c"),
        ),
        "success",
    ),
}
"""Facts of other jobs."""

BREAKS = (
    ("called-permissions", ["inner"], other("/dispatches", "204")),
    ("called-permissions", ["inner"], other("/contents/", "403")),
    ("called-secret", ["inner"], {"CANARY_SECRET": ""}),
    ("environment-secret", ["start"], {"CANARY_SECRET": "a-word"}),
    ("dispatch-commit", ["start"], {"TIP": "c" * 40}),
    ("path-filters", ["start"], {"CHANGED": ""}),
    ("path-filters", ["start"], {"BEFORE": "0" * 40, "UNTRACKED": "1"}),
    ("artifact-rerun", ["failed", "runs"], {"FIRST": "failure"}),
    ("artifact-rerun", ["failed", "runs"], {"SAME_NAME": "failure"}),
    ("artifact-rerun-failed", ["failed", "runs"], {"FIRST": "failure"}),
    ("artifact-rerun-failed", ["failed", "runs"], {"SAME_NAME": "failure"}),
    ("artifact-rerun-token", ["failed"], {"BY_TOKEN": "failure"}),
    ("artifact-again", ["failed"], {"SAME_NAME": "failure"}),
    ("artifact-anew", ["failed"], {"FIRST": "success"}),
    ("artifact-anew-token", ["failed"], {"BY_TOKEN": "failure"}),
    ("artifact-newest", ["failed"], {"GITHUB_RUN_ATTEMPT": "3"}),
    ("output-kept", ["runs"], {"ONCE": ""}),
    ("approval-each-job", ["observer", "runs"], other("/runs/1/approvals", "200 []")),
    ("artifact-overwrite", ["failed"], {"OVER": "failure"}),
    ("outputs-rerun", ["failed", "runs"], {"OUTPUT": ""}),
    ("outputs-rerun-failed", ["failed", "runs"], {"OUTPUT": ""}),
    ("variables-rerun", ["failed"], {"VARIABLE_THEN": "a-word"}),
    ("cancelled-rerun", ["failed", "runs"], {"job.dropped": "cancelled"}),
    ("queue-order", ["runs"], other("/jobs?per_page", "200 " + JOBS.replace("10:06", "10:04"))),
    ("approval-holds-group", ["observer"], other("/jobs?per_page", "200 " + JOBS.replace("pending", "waiting"))),
    ("approval-holds-group", ["observer"], other("/jobs?per_page", "200 " + JOBS.replace("waiting", "queued"))),
    ("missing-environment", ["past", "runs"], {"job.elsewhere": "failure"}),
    ("environment-branches", ["past"], {"job.elsewhere": "success"}),
    ("token-dispatch", ["dispatch"], other("/canary-events.yml/dispatches", "403")),
    ("token-dispatch", ["dispatch"], other("/canary-events.yml/runs?", '200 {"total_count": 0}')),
    ("token-dispatch", ["dispatch"], other("/canary-events.yml/runs?", "404")),
    ("token-rerun", ["dispatch"], other("/rerun-failed-jobs", "403")),
    ("dispatch-inputs", ["event"], {"WORD": ""}),
    ("dispatch-inputs", ["event"], {"FLAG": ""}),
    ("dispatch-inputs", ["event"], {"SENT": ""}),
    ("called-inputs", ["inner"], {"FLAG": ""}),
    ("called-inputs", ["inner"], {"MINUTES": ""}),
    *(("token-reads", ["past"], other(path, "403")) for path in ("/environments", "/rules/", "/actions/workflows")),
    ("token-settings", ["jit"], other("/actions/permissions/workflow", "403")),
    ("skip-ci", ["past"], other("/canary.yml/runs?", '200 {"total_count": 1}')),
    ("path-filter-limit", ["past"], other("/canary.yml/runs?", '200 {"total_count": 1}')),
    ("push-branches", ["event"], {"GITHUB_REF_NAME": "main"}),
    ("push-branches", ["event"], {"GITHUB_WORKFLOW_REF": HOLDING["GITHUB_WORKFLOW_REF"]}),
    ("schedule-zone", ["event"], {"HOUR": "12"}),
    ("schedule-zone", ["event"], {"TIP": "c" * 40}),
    ("schedule-fork", ["event"], {"FORK": ""}),
    ("pull-request-merge", ["event"], {"GITHUB_REF": "refs/heads/feature"}),
    ("pull-request-merge", ["event"], {"STRANGER": "1"}),
    ("pull-request-merge", ["event"], {"PARENTS": f"{'a' * 40} {'b' * 40} {'c' * 40}"}),
    ("pull-request-merge", ["event"], {"PARENTS": f"{'a' * 40} {'c' * 40}"}),  # the head of another push
    ("fork-request", ["event"], other("/issues/7/comments", "201")),
    *(("comment-writes", ["event"], other(path, "403")) for path in ("/issues/7/comments", "PATCH")),
    ("merge-group", ["event"], {"GITHUB_REF": "refs/heads/main"}),
    ("merge-group", ["event"], {"STRANGER": "1"}),
    ("merge-group", ["event"], {"BASE": "c" * 40}),
    ("called-attestation", ["inner"], other("/attestations", "403")),
    ("attestation", [], {"attest.outcome": "failure"}),
    ("attestation-sbom", [], {"attest.sbom": "failure"}),
    ("run-name-title", ["report"], other("actions/runs/1", '200 {"display_title": "canary"}')),
    ("called-identity", ["inner"], {"ACTIONS_ID_TOKEN_REQUEST_URL": ""}),
    ("workflow-env", ["start"], {"CANARY_ENV": ""}),
    ("jit-registration", ["jit"], other("generate-jitconfig", "403")),
    ("jit-removal", ["jit"], other("DELETE", "422")),
    ("jit-removal", ["jit"], other("/actions/runners/5", "200")),
    ("runner-exit-7", ["jit"], {"RUNNER_EXIT": "0"}),
    ("nix-sandbox", ["machine"], {"SANDBOXED": "no"}),
    ("nix-daemon-boundary", ["machine"], {"OVERRIDDEN": "no"}),
    ("nix-daemon-boundary", ["machine"], {"NIX_STORE_DIR": "."}),
    ("pinned-nixpkgs", ["machine"], {"PINS": "1"}),
    ("cache-round-trip", ["machine", "again"], {"PUSH": "1"}),
    ("cache-round-trip", ["machine", "again"], {"FETCH": "1"}),
    ("flox-build", ["machine"], {"FLOX_BUILD": "1"}),
    ("flox-publish", ["machine"], {"FLOX_EXIT": "1"}),
    *(("macos-machine", ["macos"], broken) for broken in ({"FAILS": "no"}, {"OLD": "1"}, {"SYSCTL": "1"})),
    ("macos-machine", ["macos"], {"LAYOUT": "Scripts"}),
    *(("windows-machine", ["windows"], broken) for broken in ({"FAILS": "no"}, {"OLD": "1"}, {"POWERSHELL": "1"})),
    *(("windows-machine", ["windows"], broken) for broken in ({"LAYOUT": "bin"}, {"SHORT": "1"})),
    ("no-deployment", ["report"], other("deployments?environment", "200 [{}]")),
)
"""What is made to break: the assumption, the scripts of its probe, and a change of their environment."""

BOUND = {**other("/environments/canary-elsewhere", '200 {"deployment_branch_policy": {}}'), "job.elsewhere": "failure"}
NAMED_BY = "GITHUB_EVENT_NAME"
EVENTS: dict[str, dict[str, str]] = {
    "artifact-again": {"STARTED": "2"},
    "artifact-anew": {"STARTED": "2", "FIRST": "failure"},
    "artifact-anew-token": {"STARTED": "2"},
    "artifact-overwrite": {"GITHUB_RUN_ATTEMPT": "1"},
    "artifact-rerun-failed": {"TOO": "2"},
    "outputs-rerun-failed": {"TOO": "2"},
    "cancelled-rerun": {"TOO": "2"},
    "attestation": {"job.attest": "success", "attest.outcome": "success"},
    "attestation-sbom": {"job.attest": "success", "attest.sbom": "success"},
    "output-kept": {"TOO": "2"},
    "approval-each-job": {"GITHUB_RUN_ATTEMPT": "1"},
    "missing-environment": {"runs.elsewhere": "open"},
    "environment-branches": BOUND,
    "push-branches": {
        NAMED_BY: "push",
        "GITHUB_REF_NAME": "canary-pushed",
        "GITHUB_WORKFLOW_REF": "my-org/my-repository/.github/workflows/canary-events.yml@refs/heads/canary-pushed",
    },
    "schedule-zone": {NAMED_BY: "schedule"},
    "schedule-fork": {NAMED_BY: "schedule"},
    "pull-request-merge": {
        NAMED_BY: "pull_request",
        "GITHUB_REF": "refs/pull/7/merge",
        "NUMBER": "7",
        "FROM": "my-org/my-repository",
        "BASE": "c" * 40,  # older than the parent
        "BASE_REF": "main",
        "HEAD_COMMIT": "b" * 40,
    },
    "fork-request": {NAMED_BY: "pull_request", "NUMBER": "7", "FROM": "their-org/fork", **other("/comments", "403")},
    "comment-writes": {NAMED_BY: "pull_request", "NUMBER": "7", "FROM": "my-org/my-repository"},
    "merge-group": {NAMED_BY: "merge_group", "GITHUB_REF": "refs/heads/gh-readonly-queue/main/pr-7-aaaa"},
    "path-filters": {"GITHUB_EVENT_NAME": "push"},
    "windows-machine": {"LAYOUT": "Scripts"},
    "environment-secret": {"CANARY_SECRET": ""},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({name for name, *_ in BREAKS}))
def test_a_probe_says_held_and_when_made_to_break_broken(scripts: Scripts, name: str) -> None:
    cases = [(names, changed) for one, names, changed in BREAKS if one == name]
    assert verdict(scripts, name, cases[0][0], {}) is Verdict.HELD
    for names, changed in cases:
        assert verdict(scripts, name, names, changed) is Verdict.BROKEN, changed


def verdict(scripts: Scripts, name: str, names: list[str], changed: dict[str, str]) -> Verdict:
    """The verdict after scripts in a changed environment, and with changed facts of other jobs, which have a dot."""
    world = {**EVENTS.get(name, {}), **changed}
    facts = {key: value for key, value in world.items() if "." in key}
    found = scripts(*names, **{key: value for key, value in world.items() if "." not in key})
    return assumptions()[name].verdict(complete({**RESULTS, **found, **facts}))


def test_without_secrets_and_programs_nothing_is_claimed(scripts: Scripts) -> None:
    none = {"GITHUB_TOKEN": "", "CANARY_ADMIN_TOKEN": "", "FLOX_FLOXHUB_TOKEN": "", "CACHE": ""}
    facts = complete(RESULTS | dict(scripts("inner", "jit", "machine", "again", "report", **none)))
    untried = ("called-permissions", "jit-registration", "jit-removal", "runner-exit-7", "cache-round-trip")
    for name in (*untried, "flox-publish", "no-deployment"):
        assert assumptions()[name].verdict(facts) is Verdict.NOT_TRIED


@pytest.mark.parametrize("answer", ['200 {"deployment_branch_policy": null}', '403 {"message": "no"}', "404 <html>"])
def test_a_token_that_every_branch_could_take_is_not_used(scripts: Scripts, answer: str) -> None:
    facts = dict(scripts("jit", **other("/environments/canary", answer)))
    assert (facts["jit.token"], facts["jit.bound"]) == ("set", "no")
    assert "jit.made" not in facts
    assert assumptions()["jit-registration"].verdict(complete(facts)) is Verdict.NOT_TRIED


def test_variables_that_a_called_workflow_lacks_are_broken(scripts: Scripts) -> None:
    called = assumptions()["called-variables"]
    assert called.verdict(complete(scripts("start", "inner"))) is Verdict.HELD
    facts = dict(scripts("start")) | dict(scripts("inner", CANARY_VARIABLE=""))
    assert called.verdict(complete(facts | {"start.variable": "set"})) is Verdict.BROKEN
    assert called.verdict(complete(scripts("start", "inner", CANARY_VARIABLE=""))) is Verdict.NOT_TRIED


OTHERWISE: tuple[tuple[str, list[str], dict[str, str]], ...] = (
    ("artifact-rerun", ["failed", "runs"], {"TOO": "2"}),
    ("artifact-rerun-failed", ["failed", "runs"], {"TOO": "1"}),
    ("artifact-rerun", ["failed", "runs"], {"STARTED": "2"}),
    ("outputs-rerun", ["failed", "runs"], {"GITHUB_RUN_ATTEMPT": "1"}),
    ("artifact-anew", ["failed"], {"STARTED": "1"}),
    ("variables-rerun", ["failed"], {"RUNNER_DEBUG": ""}),
    ("approval-holds-group", ["observer"], other("/environments/canary-approval", '200 {"protection_rules": []}')),
    ("approval-holds-group", ["observer"], other("/environments/canary-approval", "403")),
    ("missing-environment", ["past"], other("/canary-elsewhere", '200 {"deployment_branch_policy": null}')),
    ("missing-environment", ["past"], other("/environments/canary-elsewhere", "403")),
    ("environment-branches", ["past"], other("/environments/canary-elsewhere", "404")),
    ("token-rerun", ["dispatch"], other("/canary-runs.yml/runs?", '200 {"workflow_runs": [{"run_attempt": 2}]}')),
    ("token-rerun", ["dispatch"], other("/canary-runs.yml/runs?", "403")),
    ("dispatch-inputs", ["event"], {"GITHUB_ACTOR": "somebody"}),
    ("skip-ci", ["past"], {"SKIPPED": ""}),
    ("path-filter-limit", ["past"], {"MANY": ""}),
    ("path-filter-limit", ["past"], {"FILES": "300"}),
    ("schedule-zone", ["event"], {"GITHUB_EVENT_NAME": "push"}),
    ("fork-request", ["event"], {"FROM": "my-org/my-repository"}),
    *(
        (name, [script], {"GITHUB_TOKEN": ""})
        for name, script in (("token-reads", "past"), ("token-dispatch", "dispatch"))
    ),
    ("token-settings", ["jit"], {"CANARY_ADMIN_TOKEN": ""}),
)
"""What leaves an assumption untried: its name, the scripts of its probe, and their environment."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "names", "changed"), OTHERWISE)
def test_a_probe_that_was_not_set_up_says_nothing(
    scripts: Scripts, name: str, names: list[str], changed: dict[str, str]
) -> None:
    assert verdict(scripts, name, names, changed) is Verdict.NOT_TRIED


@pytest.mark.parametrize(
    ("name", "gone", "instead"),
    [
        ("artifact-patterns", "two/canary-1-observer", None),
        ("artifact-merged", "merged/past.facts", None),
        ("artifact-alone", "one/past.facts", "one/canary-1-past/past.facts"),
        ("artifact-alone", "one/past.facts", None),
    ],
)
def test_downloads_by_patterns_are_seen_in_the_folders(
    scripts: Scripts, tmp_path: Path, name: str, gone: str, instead: str | None
) -> None:
    one = assumptions()[name]
    assert one.verdict(complete(scripts("runs", GITHUB_RUN_ATTEMPT="1"))) is Verdict.HELD
    (tmp_path / gone).rename(tmp_path / "gone")
    if instead:
        (tmp_path / instead).parent.mkdir()
        (tmp_path / "gone").rename(tmp_path / instead)
    assert one.verdict(complete(scripts("runs", GITHUB_RUN_ATTEMPT="1"))) is Verdict.BROKEN
    assert one.verdict(complete(scripts("runs"))) is Verdict.NOT_TRIED


def test_the_annotations_of_the_job_that_lost_its_runner_are_kept(scripts: Scripts, tmp_path: Path) -> None:
    scripts("runs")
    assert (tmp_path / "facts/annotations.json").read_text("utf-8") == "[]"
    scripts("runs", **other("/check-runs/6/annotations", "403 []"))
    assert not (tmp_path / "facts/annotations.json").exists()
    scripts("runs", **other("/jobs?per_page", "403"))
    assert not (tmp_path / "facts/jobs.json").exists()


def test_a_group_whose_machine_does_not_take_the_job_is_broken(scripts: Scripts) -> None:
    facts = dict(scripts("start", "machine"))
    group = assumptions()["runs-on-group"]
    assert group.verdict(complete(facts)) is Verdict.HELD
    assert (
        group.verdict(complete({name: one for name, one in facts.items() if name != "machine.ran"})) is Verdict.BROKEN
    )
    assert group.verdict(complete(scripts("start", ADDRESSED="labels"))) is Verdict.NOT_TRIED


def test_the_runners_version_is_that_of_the_processes_above(tmp_path: Path) -> None:
    worker, listener = tmp_path / "Runner.Worker", tmp_path / "Runner.Listener"
    shutil.copy(require("bash"), worker)
    listener.write_text("#!/bin/sh\necho 2.336.0\n", "utf-8")
    listener.chmod(0o755)
    script = f"bash -c 'bash {SOURCES / 'machine.sh'} facts; true'; true"
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "cat", "dirname", "grep", "head", "mkdir", "mktemp", "readlink", "rm", "sed"):
        (tmp_path / "bin" / tool).symlink_to(require(tool))  # and no Nix
    env = {**HOLDING, "PATH": str(tmp_path / "bin")}
    done = subprocess.run(
        [worker, "-c", script],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        encoding="utf-8",
        timeout=MINUTES,
        check=False,
    )
    assert "runner-version=2.336.0" in done.stdout.splitlines()


def test_a_spec_that_compiles_no_recipe_says_nothing_about_its_pins(scripts: Scripts) -> None:
    facts = complete(scripts("machine", NO_RECIPES="1"))
    assert assumptions()["pinned-nixpkgs"].verdict(facts) is Verdict.NOT_TRIED


def test_a_forced_push_says_nothing_about_path_filters(scripts: Scripts) -> None:
    facts = complete(scripts("start", GITHUB_EVENT_NAME="push", GONE="1"))
    assert "start.touched" not in scripts("start", GITHUB_EVENT_NAME="push", GONE="1")
    assert facts["start.event"] == "push"


def test_a_first_attempt_says_nothing_about_reruns(scripts: Scripts) -> None:
    facts = complete(scripts("failed", GITHUB_RUN_ATTEMPT="1", FIRST="", SAME_NAME="success"))
    assert assumptions()["artifact-rerun"].verdict(facts) is Verdict.NOT_TRIED


def test_no_fact_names_what_the_environment_names(scripts: Scripts) -> None:
    facts = scripts("start", "inner", "failed", "machine", "again", "jit", "report", "event", "past", "runs")
    for word in ("a-token", "a-word", "a-key", "my-org", "my-repository", "cache", "b" * 40):
        assert word not in facts.values()


def test_shellcheck_finds_nothing_in_the_scripts() -> None:
    found = sorted(SOURCES.glob("*.sh"))
    assert len(found) == len([path for path in files(None) if path.endswith(".sh")])
    assert run_tool([require("shellcheck"), *found], statuses=(0, 1)).stdout == ""
