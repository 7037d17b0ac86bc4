"""The scripts of the canary's jobs with programs that answer as GitHub, Nix and Flox do; each is made to break."""

from __future__ import annotations

import os
import shutil
import subprocess
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
  rev-parse) if [ "$2" = HEAD ]; then echo "$TIP"; else echo "$UPSTREAM"; fi ;;
  diff) [ "$2" = --quiet ] || echo "$CHANGED" ;;
  cat-file) exit "${GONE:-0}" ;;
  ls-files) exit "${UNTRACKED:-0}" ;;
esac
"""
PROGRAMS = {"curl": CURL, "tar": TAR, "nix-build": NIX_BUILD, "nix": NIX, "flox": FLOX, "git": GIT}

ANSWERS = """\
/dispatches 403
/contents/ 200
/environments/canary 200 {"deployment_branch_policy": {"custom_branch_policies": true}}
generate-jitconfig 201 {"runner": {"id": 5}, "encoded_jit_config": "a-key"}
DELETE 204
/actions/runners/5 404
/jobs?per_page 200 {"jobs": []}
actions/runs/1 200 {"display_title": "canary [1]"}
deployments?environment 200 []
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
    "ODD_NAME": "success",
    "FIRST": "success",
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
    for name, text in PROGRAMS.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text, "utf-8")
        program.chmod(0o755)
    (tmp_path / "facts").mkdir()

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


RESULTS = {"direct.secret": "set", "job.quiet": "success", "job.start": "success"}
"""Facts of other jobs."""

BREAKS = (
    ("called-permissions", ["inner"], other("/dispatches", "204")),
    ("called-permissions", ["inner"], other("/contents/", "403")),
    ("called-secret", ["inner"], {"CANARY_SECRET": ""}),
    ("environment-secret", ["start"], {"CANARY_SECRET": "a-word"}),
    ("dispatch-commit", ["start"], {"TIP": "c" * 40}),
    ("path-filters", ["start"], {"CHANGED": ""}),
    ("path-filters", ["start"], {"BEFORE": "0" * 40, "UNTRACKED": "1"}),
    ("artifact-rerun", ["rerun"], {"FIRST": "failure"}),
    ("artifact-rerun", ["rerun"], {"SAME_NAME": "failure"}),
    ("artifact-again", ["rerun"], {"SAME_NAME": "failure"}),
    ("run-name-title", ["report"], other("actions/runs/1", '200 {"display_title": "canary"}')),
    ("called-identity", ["inner"], {"ACTIONS_ID_TOKEN_REQUEST_URL": ""}),
    ("workflow-env", ["start"], {"CANARY_ENV": ""}),
    ("artifact-names", ["rerun"], {"ODD_NAME": "failure"}),
    ("jit-registration", ["jit"], other("generate-jitconfig", "403")),
    ("jit-removal", ["jit"], other("DELETE", "422")),
    ("jit-removal", ["jit"], other("/actions/runners/5", "200")),
    ("runner-exit-7", ["jit"], {"RUNNER_EXIT": "0"}),
    ("nix-sandbox", ["machine"], {"SANDBOXED": "no"}),
    ("nix-daemon-boundary", ["machine"], {"OVERRIDDEN": "no"}),
    ("nix-daemon-boundary", ["machine"], {"NIX_STORE_DIR": "."}),
    ("cache-round-trip", ["machine", "again"], {"PUSH": "1"}),
    ("cache-round-trip", ["machine", "again"], {"FETCH": "1"}),
    ("flox-build", ["machine"], {"FLOX_BUILD": "1"}),
    ("flox-publish", ["machine"], {"FLOX_EXIT": "1"}),
    ("no-deployment", ["report"], other("deployments?environment", "200 [{}]")),
)
"""What is made to break: the assumption, the scripts of its probe, and a change of their environment."""

EVENTS: dict[str, dict[str, str]] = {
    "artifact-again": {"STARTED": "2"},
    "path-filters": {"GITHUB_EVENT_NAME": "push"},
    "environment-secret": {"CANARY_SECRET": ""},
}


@pytest.mark.parametrize(("name", "names", "changed"), BREAKS)
def test_a_probe_says_held_and_when_made_to_break_broken(
    scripts: Scripts, name: str, names: list[str], changed: dict[str, str]
) -> None:
    one, event = assumptions()[name], EVENTS.get(name, {})
    assert one.verdict(complete(RESULTS | dict(scripts(*names, **event)))) is Verdict.HELD
    assert one.verdict(complete(RESULTS | dict(scripts(*names, **{**event, **changed})))) is Verdict.BROKEN


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


def test_outputs_that_a_partial_re_run_loses_are_broken(scripts: Scripts) -> None:
    kept = assumptions()["outputs-rerun"]
    facts = dict(scripts("rerun")) | {"job.outer": "success"}
    assert kept.verdict(complete(facts | {"outer.result": "success"})) is Verdict.HELD
    assert kept.verdict(complete(facts | {"outer.result": "empty"})) is Verdict.BROKEN
    assert kept.verdict(complete(dict(scripts("rerun", STARTED="2")) | {"job.outer": "success"})) is Verdict.NOT_TRIED


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


def test_a_forced_push_says_nothing_about_path_filters(scripts: Scripts) -> None:
    facts = complete(scripts("start", GITHUB_EVENT_NAME="push", GONE="1"))
    assert "start.touched" not in scripts("start", GITHUB_EVENT_NAME="push", GONE="1")
    assert facts["start.event"] == "push"


def test_a_first_attempt_says_nothing_about_reruns(scripts: Scripts) -> None:
    facts = complete(scripts("rerun", GITHUB_RUN_ATTEMPT="1", FIRST="", SAME_NAME="success"))
    assert assumptions()["artifact-rerun"].verdict(facts) is Verdict.NOT_TRIED


def test_no_fact_names_what_the_environment_names(scripts: Scripts) -> None:
    facts = scripts("start", "inner", "rerun", "machine", "again", "jit", "report")
    for word in ("a-token", "a-word", "a-key", "my-org", "my-repository", "cache", "b" * 40):
        assert word not in facts.values()


def test_shellcheck_finds_nothing_in_the_scripts() -> None:
    found = sorted(SOURCES.glob("*.sh"))
    assert len(found) == len([path for path in files(None) if path.endswith(".sh")])
    assert run_tool([require("shellcheck"), *found], statuses=(0, 1)).stdout == ""
