"""Each checker passes a good tree and finds, in a tree with faults, the fault that it is there for."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from . import (
    ExpressionError,
    actionlint_problems,
    condition_values,
    expression_value,
    expression_values,
    jsonschema_problems,
    language_service_problems,
    require,
    scripts,
    shellcheck_problems,
    zizmor_problems,
)
from .tools import files, run

Checker = Callable[[Iterable[Path]], list[str]]

CHECKOUT = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"

GOOD = {
    ".github/actionlint.yaml": """\
        self-hosted-runner:
          labels: [nix-builder]
        """,
    ".github/actions/greet/action.yml": """\
        name: Greet
        description: Says hello.
        inputs:
          who:
            description: Whom to greet.
            required: true
        runs:
          using: composite
          steps:
            - shell: bash
              env:
                WHO: ${{ inputs.who }}
              run: echo "Hello, $WHO"
        """,
    ".github/workflows/called.yml": f"""\
        name: called
        on:
          workflow_call:
            inputs:
              variant: {{type: string, required: true}}
              runs-on: {{type: string, required: true}}
            outputs:
              path:
                value: ${{{{ jobs.build.outputs.path }}}}
        permissions: {{}}
        jobs:
          build:
            runs-on: ${{{{ fromJSON(inputs.runs-on) }}}}
            timeout-minutes: 60
            permissions: {{contents: read, id-token: write, attestations: write, artifact-metadata: write}}
            outputs:
              path: ${{{{ steps.build.outputs.path }}}}
            steps:
              - uses: {CHECKOUT}
                with: {{persist-credentials: false}}
              - uses: ./.github/actions/greet
                with:
                  who: ${{{{ inputs.variant }}}}
              - id: build
                env:
                  VARIANT: ${{{{ inputs.variant }}}}
                run: |
                  path=$(nix-build --no-out-link -A "$VARIANT")
                  echo "path=$path" >>"$GITHUB_OUTPUT"
        """,
    ".github/workflows/caller.yml": """\
        name: caller
        on:
          workflow_dispatch:
            inputs:
              variant: {type: choice, options: [all, one], default: all}
        permissions: {}
        jobs:
          one:
            if: contains(fromJSON('["all", "one"]'), inputs.variant)
            permissions: {contents: read, id-token: write, attestations: write, artifact-metadata: write}
            uses: ./.github/workflows/called.yml
            with:
              variant: one
              runs-on: '["self-hosted", "linux", "x64", "nix-builder"]'
          test:
            needs: one
            if: ${{ !cancelled() && needs.one.result == 'success' }}
            runs-on: [self-hosted, linux, x64, nix-builder]
            timeout-minutes: 10
            steps:
              - env:
                  STORE_PATH: ${{ needs.one.outputs.path }}
                run: test -e "$STORE_PATH"
        """,
}


def faulty(job: str) -> str:
    """A workflow with one job, of which the given lines say what it does beside its runner."""
    head = "name: faulty\non: push\npermissions: {}\njobs:\n  a:\n    runs-on: ubuntu-latest\n    timeout-minutes: 5\n"
    return head + "".join(f"    {line}\n" for line in dedent(job).splitlines())


def calling(inputs: str) -> str:
    """A workflow that calls the good one with the given inputs."""
    job = f"    permissions: {{}}\n    uses: ./.github/workflows/called.yml\n    with: {inputs}\n"
    return f"name: faulty\non: push\npermissions: {{}}\njobs:\n  a:\n{job}"


FAULTY = {
    "context": faulty("steps: [{run: 'true', env: {A: '${{ needs.a.result }}'}}]"),
    "greeting": faulty("steps: [{uses: ./.github/actions/greet, with: {whom: me}}]"),
    "key": faulty("timeout: 5\nsteps: [{run: 'true'}]"),
    "label": faulty("steps: [{run: 'true'}]").replace("ubuntu-latest", "[self-hosted, nix-builder, gpu-sm90]"),
    "missing": calling("{variant: one}"),
    "absent": faulty("steps: [{uses: ./.github/actions/absent}]"),
    "needs": faulty("needs: [b]\nsteps: [{run: 'true'}]"),
    "type": faulty("steps: [{run: 'true', env: {A: '${{ github.ref.name }}'}}]"),
    "unknown": calling("{variant: one, runs-on: '[]', colour: red}"),
    "yaml": "on: [push\n",
}

UNSAFE = {
    "injection": faulty('steps:\n  - run: echo "${{ github.head_ref }}"'),
    "unpinned": faulty("steps:\n  - uses: actions/checkout@v7\n    with: {persist-credentials: false}"),
    "kept": faulty(f"steps:\n  - uses: {CHECKOUT}"),
}

SCRIPTS = {
    "unquoted": faulty("steps:\n  - run: |\n      true\n      ls $HOME/$1"),
    "dialect": faulty("steps:\n  - {shell: sh, run: '[[ $HOME ]]'}"),
    "inherited": faulty("defaults: {run: {shell: sh}}\nsteps:\n  - run: '[[ $HOME ]]'"),
    "python": faulty("steps:\n  - {shell: python, run: 'print($x)'}"),
    "template": faulty("steps:\n  - {shell: 'bash -u {0}', run: 'cat $HOME'}"),
    "spliced": faulty("steps:\n  - run: test '${{ github.sha }}' = '${{ github.ref }}'"),
}


def written(root: Path, texts: dict[str, str]) -> list[Path]:
    """The files, written below `root`; only workflows and actions are given back, for those are judged."""
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return [root / name for name in texts if name.endswith(".yml")]


def faults(root: Path, workflows: dict[str, str]) -> list[Path]:
    """The faulty workflows, written into a tree that also holds the good files which they call."""
    written(root, GOOD)
    return written(root, {f".github/workflows/{name}.yml": text for name, text in workflows.items()})


def by_name(checker: Checker, paths: list[Path]) -> dict[str, str]:
    """What a checker says of many files, in one run: the problems of each, under the file's name."""
    problems = checker(paths)
    return {path.stem: "\n".join(line for line in problems if line.startswith(f"{path}:")) for path in paths}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return written(tmp_path_factory.mktemp("good"), GOOD)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return faults(tmp_path_factory.mktemp("bad"), FAULTY)


@pytest.mark.parametrize(
    "checker", [jsonschema_problems, language_service_problems, actionlint_problems, shellcheck_problems]
)
def test_good_files_are_clean(checker: Checker, good: list[Path]) -> None:
    assert checker(good) == []


def test_no_files_are_no_clean_tree() -> None:
    with pytest.raises(ValueError, match="no files"):
        files(iter(()))


def test_jsonschema_finds_wrong_keys(bad: list[Path], tmp_path: Path) -> None:
    told = by_name(jsonschema_problems, bad)
    assert "'timeout' was unexpected" in told["key"]
    assert "Failed to parse" in told["yaml"]
    assert not told["type"]
    [action] = written(tmp_path, {"action.yml": "name: a\ndescription: b\nruns: {using: composite}\n"})
    assert f"{action}: $.runs" in "\n".join(jsonschema_problems([action]))


def test_the_language_service_finds_what_github_refuses(bad: list[Path]) -> None:
    told = by_name(language_service_problems, bad)
    assert ":8:5: error Unexpected value 'timeout'" in told["key"]
    assert ":8:13: error Value 'b' is not valid" in told["needs"]
    assert "Context access might be invalid: a" in told["context"]
    assert "Input runs-on is required, but not provided" in told["missing"]
    assert "Invalid input, colour is not defined" in told["unknown"]
    assert "Invalid action input 'whom'" in told["greeting"]
    assert "Missing required input `who`" in told["greeting"]
    assert "Unable to resolve action `./.github/actions/absent`" in told["absent"]
    assert ": error " in told["yaml"]


def test_actionlint_finds_types_labels_and_wrong_calls(bad: list[Path]) -> None:
    told = by_name(actionlint_problems, bad)
    assert ':8:41: expression receiver of object dereference "name" must be' in told["type"]
    assert 'runner-label label "gpu-sm90" is unknown' in told["label"]
    assert '"nix-builder" is unknown' not in told["label"]
    assert 'needs job "b" which does not exist' in told["needs"]
    assert 'input "runs-on" is required' in told["missing"]
    assert 'input "colour" is not defined' in told["unknown"]
    assert 'missing input "who"' in told["greeting"]
    assert "could not parse as YAML" in told["yaml"]


@pytest.mark.parametrize("checker", [language_service_problems, actionlint_problems])
def test_a_file_that_has_changed_is_read_again(checker: Checker, tmp_path: Path) -> None:
    """Also one that is only called, or a configuration: a checker answers more than one question."""
    paths = faults(tmp_path, {"call": calling("{variant: one, runs-on: '[]'}")})
    assert checker(paths) == []
    called, action = tmp_path / ".github/workflows/called.yml", tmp_path / ".github/actions/greet/action.yml"
    called.write_text(
        called.read_text("utf-8").replace("variant: {", "kind: {type: string, required: true}\n      variant: {")
    )
    assert "kind" in "\n".join(checker(paths))
    written(tmp_path, GOOD)
    action.write_text(action.read_text("utf-8").replace("who:", "whom:"))
    assert "whom" in "\n".join(checker([called]))
    assert checker(written(tmp_path / "else", GOOD)) == []


def test_shellcheck_reads_every_script_in_its_own_shell(tmp_path: Path) -> None:
    told = by_name(shellcheck_problems, faults(tmp_path, SCRIPTS))
    assert ":11: SC2086 " in told["unquoted"]
    assert ":9: SC3010 " in told["dialect"]
    assert not told["inherited"]  # the same text in the same shell: told at its first place
    assert ":9: SC2086 " in told["template"]
    assert not told["python"]
    assert not told["spliced"]
    [broken] = faults(tmp_path / "yaml", {"yaml": FAULTY["yaml"]})
    assert "while parsing" in by_name(shellcheck_problems, [broken])["yaml"]


def test_scripts_know_their_place_and_shell(tmp_path: Path) -> None:
    paths = faults(tmp_path, SCRIPTS)
    assert [(script.line, script.shell) for path in paths for script in scripts(path)] == [
        (10, "bash"),
        (9, "sh"),
        (10, "sh"),
        (9, "bash"),
        (9, "bash"),
    ]


def test_zizmor_finds_what_is_unsafe(tmp_path: Path) -> None:
    paths = faults(tmp_path, UNSAFE)
    told = by_name(zizmor_problems, paths)
    assert ":9:" in told["injection"]
    assert "template-injection" in told["injection"]
    assert "unpinned-uses" in told["unpinned"]
    assert "artipacked" in told["kept"]
    assert len(zizmor_problems(paths, "pedantic")) > len(zizmor_problems(paths))


def test_zizmor_reads_the_configuration_it_is_given(good: list[Path], tmp_path: Path) -> None:
    config = tmp_path / "zizmor.yml"
    config.write_text("rules: {self-repository: {disable: true}}\n", encoding="utf-8")
    assert zizmor_problems(good, config=config) == []
    assert all("self-repository" in line for line in zizmor_problems(good))


def test_zizmor_reports_files_that_it_cannot_judge(bad: list[Path]) -> None:
    [problem] = zizmor_problems(bad)
    assert "no audit was performed" in problem


def test_expressions_have_githubs_values() -> None:
    github = {"event_name": "push", "ref": "refs/heads/main", "event": {"labels": [{"name": "a"}, {"name": "b"}]}}
    contexts = {"github": github, "inputs": {"runs-on": '["self-hosted", "linux"]', "dry": False}}
    table: dict[str, object] = {
        "contains(github.event.labels.*.name, 'B')": True,
        "${{ fromJSON(inputs.runs-on) }}": ["self-hosted", "linux"],
        "format('{0}-{1}', github.event_name, 3)": "push-3",
        "github.event.absent.more": None,
        "github.event_name == 'PUSH'": True,
        "startsWith(github.ref, 'refs/heads/') && 'branch' || 'tag'": "branch",
        "inputs.dry": False,
        "1.5": 1.5,
        "'it''s'": "it's",
    }
    assert expression_values((expression, contexts) for expression in table) == list(table.values())


@pytest.mark.parametrize(
    ("status", "values"),
    [
        ("success", [True, False, False, True, True]),
        ("failure", [False, True, False, True, True]),
        ("cancelled", [False, False, True, True, False]),
        ("skipped", [False, False, False, True, True]),
    ],
)
def test_status_functions_have_the_status_given(status: str, values: list[bool]) -> None:
    functions = ["success()", "failure()", "cancelled()", "always()", "!cancelled()"]
    assert expression_values((function, {"status()": status}) for function in functions) == values


@pytest.mark.parametrize(
    ("results", "values"),
    [
        (["success", "success"], [True, True, False]),
        (["success", "skipped"], [False, True, False]),
        (["failure", "skipped"], [False, True, True]),
    ],
)
def test_conditions_begin_with_success_unless_they_ask(results: list[str], values: list[bool]) -> None:
    needs = {f"job{number}": {"result": result} for number, result in enumerate(results)}
    conditions = ["needs.job0.result", "always() && needs.job0.result", "${{ failure() }}"]
    assert condition_values((condition, {"needs": needs}) for condition in conditions) == values


@pytest.mark.parametrize("expression", ["nothing.here", "nothing()", "a == ", "x-${{ 1 }}", "fromJSON('{')"])
def test_what_github_does_not_evaluate_is_an_error(expression: str) -> None:
    with pytest.raises(ExpressionError):
        expression_value(expression, {"github": {}})


Levels = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def levels(tmp_path: Path) -> Levels:
    """Runs pytest with the settings of these tests, and words, on three tests that need tools and three others."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n", "utf-8")
    (tmp_path / "test_a_slow.py").write_text("import pytest\n@pytest.mark.slow\ndef test_slow(): pass\n", "utf-8")
    (tmp_path / "test_skipped.py").write_text(
        "import pytest\nfrom tests.checkers.tools import require\n"
        "@pytest.mark.parametrize('tool', ['zsh', 'zsh', 'no-such-tool'])\n"
        "def test_a_tool(tool): require(tool)\n"
        "def test_nothing(): pytest.skip('another reason')\n"
        "def test_fast(): pass\n",
        "utf-8",
    )

    def run_pytest(*more: str, statuses: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(tmp_path / "empty"), "PYTHONPATH": str(Path(__file__).parents[2])}
        words = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", str(tmp_path)]
        words += ["--basetemp", str(tmp_path / "own")]  # or it would remove the folders of earlier runs of this machine
        return run([*words, *more], env=environment, statuses=statuses)

    return run_pytest


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"])
def test_tests_skipped_for_want_of_a_tool_are_counted_by_tool_at_the_end(levels: Levels, processes: str) -> None:
    """In one process and in several; without a skipped test there is no line."""
    shown = levels("-n", processes).stdout.splitlines()
    assert (
        shown.count("skipped for want of a tool: 3: 1 no-such-tool (put it on PATH), 2 zsh (apt-get install zsh)") == 1
    )
    assert re.match(r"tests that need one of these tools are skipped, .*, zsh", shown[0])
    assert "want of a tool" not in levels("-n", "0", "-k", "nothing").stdout


@pytest.mark.slow
def test_slow_tests_are_left_out_until_everything_is_asked_for(levels: Levels) -> None:
    shown = levels("-n", "2", "-vv").stdout
    assert "::test_slow" not in shown
    assert "slow tests were left out: `python -m pytest --everything` runs them as well" in shown.splitlines()
    everything = levels("-n", "0", "-vv", "--everything").stdout
    assert re.findall(r"::(test_slow|test_fast) PASSED", everything) == ["test_slow", "test_fast"]
    assert "left out" not in everything


@pytest.mark.slow
def test_what_passed_in_one_run_is_left_out_of_the_next(levels: Levels, tmp_path: Path) -> None:
    passed = tmp_path / "passed"
    levels("-n", "2", "--passed", str(passed))
    assert passed.read_text("utf-8") == "test_skipped.py::test_fast\n"
    shown = levels("-n", "0", "-vv", "--everything", "--but", str(passed)).stdout
    assert re.findall(r"::(\w+)(?:\[.*\])? (?:PASSED|SKIPPED)", shown) == [
        "test_slow",
        *["test_a_tool"] * 3,
        "test_nothing",
    ]


@pytest.mark.slow
def test_a_skip_that_names_no_tool_is_red_where_that_is_asked(levels: Levels) -> None:
    shown = levels("-n", "2", "--name-tools", statuses=(1,)).stdout
    assert (
        shown.splitlines().count(
            "skipped without the name of a tool: test_skipped.py::test_nothing: Skipped: another reason"
        )
        == 1
    )
    levels("-n", "2", "--name-tools", "-k", "not nothing")


def test_a_missing_tool_skips_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI_COMPILER_TOOLS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-tool is not installed: put it on PATH"):
        require("no-such-tool")
    monkeypatch.setenv("CI_COMPILER_TOOLS", "required")
    with pytest.raises(pytest.fail.Exception, match="no-such-tool is not installed"):
        require("no-such-tool")
