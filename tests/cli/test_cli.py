"""The commands as users see them: exit codes, standard output, standard error."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ci_compiler import __version__
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.plan.limits import Limit, limit
from tests.loops import each

PROGRAMS = {one.name: one for one in (PROGRAM, RUNNER)}
CHECK_IMPORTS = Path(__file__).with_name("check_imports.txt")
"""The modules of the compiler that `ci-compile --check` imports, one a line."""


def ci(*argv: str) -> int:
    return run(PROGRAM, argv)


@pytest.mark.parametrize(("most", "said"), [(3, True), (1_000, False)])
def test_check_says_that_path_filters_do_not_see_every_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, most: int, *, said: bool
) -> None:
    root = ["--bundled", "--root", str(tmp_path)]
    assert ci(*root) == 0
    for path in (tmp_path / ".github/workflows").glob("build-main-*.yml"):
        path.unlink()
    real = limit
    few = Limit(most, most)
    monkeypatch.setattr("ci_compiler.plan.limits.limit", lambda name: few if name == "filtered-files" else real(name))
    capsys.readouterr()
    assert ci(*root, "--check") == 1
    assert (f"and GitHub's path filters see {most}: " in capsys.readouterr().err) == said


def test_check_reports_drift_and_the_command_that_fixes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--bundled", "--root", str(tmp_path)]
    assert ci(*root) == 0
    assert ci(*root, "--check") == 0
    cell = tmp_path / ".github/workflows/cell.yml"
    cell.write_text(cell.read_text("utf-8") + "# edited\n", "utf-8")
    (tmp_path / ".github/workflows/pages.yml").unlink()
    (tmp_path / ".github/workflows/old.yml").write_text("# Compiled by ci-compile from s\n", "utf-8")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.yml")}
    capsys.readouterr()
    assert ci(*root, "--check", "--diff") == 1
    out, err = capsys.readouterr()
    assert err.splitlines()[2:] == [  # after the warnings of the bundled spec
        "error: .github/workflows/cell.yml: is not as compiled [drift]",
        "error: .github/workflows/old.yml: is no longer compiled [drift]",
        "error: .github/workflows/pages.yml: is missing [drift]",
        f"3 files drifted; run `ci-compile --root {tmp_path} --bundled`",
    ]
    assert "-# edited" in out.splitlines()
    assert "actions-lock" not in err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.yml")} == before
    assert ci(*root) == 0
    assert ci(*root, "--check") == 0


@pytest.mark.parametrize("how", ["onboarded", "local actions"])
def test_check_says_what_to_do_after_gh_actions_lock(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It adds a first line and replaces pins by tags in what it onboards, and `./` by `$/` in what it does not."""
    root = ["--bundled", "--root", str(tmp_path)]
    assert ci(*root) == 0
    name = "cell" if how == "onboarded" else "pull-request"
    path = tmp_path / f".github/workflows/{name}.yml"
    before = path.read_text("utf-8")
    if how == "onboarded":
        pins = re.sub(r"@[0-9a-f]{40} # (v\S+)", r"@\1", before)
        path.write_text(f"# This workflow is managed by gh actions-lock.\n{pins}", "utf-8")
    else:
        path.write_text(before.replace("uses: ./.github/actions", "uses: $/.github/actions"), "utf-8")
    lock = tmp_path / ".github/workflows/actions.lock"
    lock.write_text("version: 1\n", "utf-8")
    assert path.read_text("utf-8") != before
    capsys.readouterr()
    assert ci(*root, "--check") == 1
    said = capsys.readouterr().err
    assert f"error: .github/workflows/{name}.yml: is not as compiled [drift]" in said
    assert f"run `ci-compile --root {tmp_path} --bundled`\n`gh actions-lock` rewrote compiled files" in said
    assert ci(*root) == 0
    assert (path.read_text("utf-8"), lock.read_text("utf-8")) == (before, "version: 1\n")


@pytest.mark.parametrize("kind", ["missing", "folder", "unreadable-link"])
def test_an_unreadable_spec_is_reported_on_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    spec = tmp_path / "spec.yaml"
    if kind == "folder":
        spec.mkdir()
    elif kind == "unreadable-link":
        spec.symlink_to(spec)
    assert ci("--root", str(tmp_path), "--spec", str(spec)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: spec.yaml: ")
    assert " [spec-" in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / ".github").exists()


def test_variants_by_pattern_branch_and_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert ci("variants", "*-sm{90,100}-avx*", "--branch", "main", "--package", "torchaudio", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 8
    assert found[0] == {
        "name": "torchaudio-python313-cuda12_8-sm90-avx2",
        "package": "torchaudio",
        "version": "2.8.0",
        "recipe": ".flox/pkgs/torchaudio-python313-cuda12_8-sm90-avx2.nix",
        "needs": ["pytorch-python313-cuda12_8-sm90-avx2"],
        "gathers": [],
        "build": "torchaudio-python313-cuda12_8-sm90-avx2",
        "branch": "main",
        "python": "3.13",
        "family": "cuda",
        "toolkit": "12.8",
        "target": "sm90",
        "listed": "",
        "isa": "avx2",
        "system": "x86_64-linux",
        "suffix": "python313-cuda12_8-sm90-avx2",
        "axes": {
            "branch": "main",
            "python": "3.13",
            "family": "cuda",
            "toolkit": "12.8",
            "target": "sm90",
            "isa": "avx2",
        },
    }
    assert ci("variants") == 0
    assert len(capsys.readouterr().out.splitlines()) == 459
    assert ci("variants", "nothing-*") == 1
    assert "no variant matches" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--check", "--branch", "mian"], "--branch: unknown branch 'mian'; did you mean main?"),
        (["variants", "--branch", "mian"], "--branch: unknown branch 'mian'; did you mean main?"),
        (["variants", "{a"], "PATTERN: '{a' opens a brace that it never closes"),
        (["explain", "pytorch-python313-cpu-armv8.2"], "write pytorch-python313-cpu-armv8_2"),
        (["explain", "pytorch-python313-cuda12_8-sm91-avx2"], "unknown GPU 'sm91'; did you mean sm90"),
        (["explain", "x"], "is not a variant's name"),
        (["audit", "/nowhere/at/all"], "/nowhere/at/all: the folder does not exist"),
        (["summary", ".", "--chosen", "[1"], "--chosen:1:3: is not JSON: Expecting ',' delimiter"),
        (["summary", ".", "--chosen", "[" * 10_000], "--chosen: is nested deeper than 100 levels"),
        (["summary", ".", "--chosen", "5"], "--chosen: is neither a JSON list of names nor a mapping"),
        (
            ["summary", ".", "--chosen", '{"main": 5}'],
            "--chosen: is neither a JSON list of names nor a mapping",
        ),
        (["summary", ".", "--chosen", "[5]"], "--chosen: is neither a JSON list of names nor a mapping"),
        (["--root", "/nowhere/at/all"], "/nowhere/at/all: no such folder"),
    ],
)
def test_wrong_arguments_are_reported_on_one_line_with_the_right_ones(
    capsys: pytest.CaptureFixture[str], argv: list[str], said: str
) -> None:
    assert ci(*argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert sum(not line.startswith("warning: ") for line in err.splitlines()) == 1


def test_a_misnamed_spec_does_not_fall_back_to_the_bundled_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ci("init", "--root", str(tmp_path)) == 0
    assert ci("--root", str(tmp_path)) == 0
    spec = tmp_path / ".github/ci-matrix.yaml"
    spec.rename(spec.with_suffix(".yml"))
    capsys.readouterr()
    assert ci("--check", "--root", str(tmp_path)) == 2
    assert capsys.readouterr().err == (
        "error: .github/ci-matrix.yml: the spec must be called ci-matrix.yaml; rename the file, or give --spec "
        "[spec-missing]\n"
    )
    spec.with_suffix(".yml").unlink()
    assert ci("--check", "--root", str(tmp_path)) == 2
    assert capsys.readouterr().err == (
        "error: .github/ci-matrix.yaml: the files here are compiled from it; restore it, or give --spec "
        "[spec-missing]\n"
    )


@pytest.mark.parametrize(
    ("head", "said"),
    [("feature", "feature is checked out, which is not a branch of the spec"), ("", "no branch is checked out here")],
)
def test_recipes_of_a_branch_that_is_not_known_are_neither_checked_nor_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], head: str, said: str
) -> None:
    assert ci("init", "--root", str(tmp_path)) == 0
    assert ci("recipes", "--branch", "main", "--root", str(tmp_path)) == 0
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text(f"ref: refs/heads/{head}\n" if head else "0" * 40, "utf-8")
    capsys.readouterr()
    assert [ci(*words, "--root", str(tmp_path)) for words in ([], ["--check"])] == [2, 2]
    assert capsys.readouterr() == ("", f"error: --branch: {said}; give --branch; known are main [unknown-branch]\n" * 2)


def test_a_full_output_device_is_reported_on_one_line() -> None:
    script = "from ci_compiler.cli.compile import main\nraise SystemExit(main())"
    command = [sys.executable, "-c", script, "variants"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: ci-compile: No space left on device [system]\n")
    closed = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], capture_output=True, text=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.parametrize("encoding", ["ascii", "cp437", "cp1252"])
@pytest.mark.parametrize("command", ["schema", "variants", "recal", "variants --help"])
def test_a_character_that_the_terminal_lacks_is_escaped(encoding: str, command: str, tmp_path: Path) -> None:
    script = "from ci_compiler.cli.compile import main\nraise SystemExit(main())"
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    words = [sys.executable, "-c", script, *command.split()]
    done = subprocess.run(words, env=env, capture_output=True, encoding=encoding, check=False, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (2 if command == "recal" else 0, False)
    if (command, encoding) == ("schema", "ascii"):
        assert re.search(r"\\u[0-9a-f]{4}", done.stdout)


def test_errors_of_the_operating_system_are_reported_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refuse)
    assert ci("--check", "--root", str(tmp_path)) == 2
    assert capsys.readouterr().err == f"error: {tmp_path}/.github/ci-matrix.yaml: Permission denied [system]\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cuda13_0-sm110-armv9", "NCCL and MAGMA are built for 11.0 alone; nixpkgs takes it for a Jetson: "),
        ("cuda12_8-sm61-avx", "NCCL and MAGMA are built for 6.1 alone\n"),
        (
            "cuda12_8-sm90-avx2",
            "NCCL and MAGMA have code for nixpkgs' 7 architectures, 7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 12.0; `cap",
        ),
        ("cpu-avx2", ""),
    ],
)
def test_explain_says_what_linked_libraries_are_built_for(
    capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    assert ci("explain", f"pytorch-python313-{name}") == 0
    found = capsys.readouterr().out
    assert f"  libraries    {said}" in found if said else "libraries" not in found


def test_explain_shows_where_a_variant_is_built_and_tested(capsys: pytest.CaptureFixture[str]) -> None:
    assert ci("explain", "torchvision-python313-cuda12_8-sm90-avx2", "--json") == 0
    built = json.loads(capsys.readouterr().out)["built"]
    assert [one["branch"] for one in built] == ["main"]
    assert built[0]["recipe"] == ".flox/pkgs/torchvision-python313-cuda12_8-sm90-avx2.nix"
    assert built[0]["workflow"] == ".github/workflows/build-main-sm90.yml"
    assert built[0]["route"]["gpu-test"] == "h100"
    assert ci("explain", "torchvision-python313-cuda12_8-sm90-avx2") == 0
    assert "gpu-test     h100 (self-hosted, linux, x64, gpu-sm90)" in capsys.readouterr().out
    assert ci("explain", "pytorch-python313-cpu-avx2", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["built"]) == 3


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pytorch-python313-cuda13_0-sm61-avx", "CUDA 12.9 was the last to know sm61, and the branch has 13.0"),
        ("pytorch-python313-cuda12_8-sm103-avx2", "sm103 needs CUDA 12.9 or newer, and the branch has 12.8"),
        ("pytorch-python313-cuda13_0-sm121-avx2", "sm121 (DGX Spark (GB10)) comes with aarch64-linux hosts alone"),
        ("pytorch-python313-cuda12_8-sm75-avx2", "sm75 is not selected on main"),
        ("pytorch-python313-cuda12_8-sm90-avx", "avx is not selected for sm90 on main"),
        ("pytorch-python312-cuda12_8-sm90-avx2", "Python 3.12 is not in the matrix"),
        ("pytorch-python313-cuda12_8-sm87-armv8_2", "sm87 is not in the matrix"),
    ],
)
def test_explain_shows_why_a_variant_is_not_built(capsys: pytest.CaptureFixture[str], name: str, reason: str) -> None:
    assert ci("explain", name) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{name} is not built: ")
    assert reason in out
    assert "torch.yaml (bundled):" in out


def test_init_writes_a_spec_that_compiles_and_never_overwrites_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = ["--root", str(tmp_path)]
    assert ci("init", *root, "--owner", "some-org") == 0
    spec = tmp_path / ".github/ci-matrix.yaml"
    assert "owner: some-org" in spec.read_text("utf-8")
    schema = json.loads((tmp_path / ".github/ci-matrix.schema.json").read_text("utf-8"))
    assert schema["properties"]["owner"]["description"]
    assert ci(*root) == 0
    spec.write_text(spec.read_text("utf-8") + "# mine\n", "utf-8")
    capsys.readouterr()
    assert ci("init", *root) == 2
    assert "in-the-way" in capsys.readouterr().err
    assert spec.read_text("utf-8").endswith("# mine\n")
    assert ci("init", "--root", str(tmp_path / ".github"), "--owner", "a: b") == 2


def test_the_schema_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert ci("schema") == 0
    schema = json.loads(capsys.readouterr().out)
    for name, part in {**schema["properties"], **schema["$defs"]}.items():
        assert part.get("description") or part.get("title") or part.get("$ref") or part["type"] == "object", name


def test_a_wrong_option_is_reported_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        ci("--chekc")
    assert done.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("program", [PROGRAM, RUNNER], ids=lambda program: program.name)
def test_every_subcommand_has_a_module_and_help(
    capsys: pytest.CaptureFixture[str],
    program: type[PROGRAM],  # type: ignore[valid-type]
) -> None:
    for command in each(program.commands):  # type: ignore[attr-defined]
        with pytest.raises(SystemExit) as done:
            run(program, [command, "--help"])
        assert done.value.code == 0
        assert program.name in capsys.readouterr().out  # type: ignore[attr-defined]


def on_a_terminal(*argv: str, **environment: str) -> str:
    """What `ci-compile` prints to a terminal."""
    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "ci_compiler", *argv]
    with subprocess.Popen(command, stdout=inner, env={**os.environ, "TERM": "xterm", **environment}) as process:
        os.close(inner)
        said = b""
        try:
            while chunk := os.read(outer, 65536):
                said += chunk
        except OSError:  # the terminal is closed: Linux says EIO
            pass
        assert process.wait() == 0
    os.close(outer)
    return said.decode()


def test_tables_are_formatted_on_a_terminal_and_respect_no_color() -> None:
    argv = ["variants", "*-sm90-avx2", "--branch", "main"]
    assert on_a_terminal(*argv).startswith("\x1b[1mvariant")
    assert "\x1b" not in on_a_terminal(*argv, NO_COLOR="1")


def test_a_pipe_that_closes_early_is_not_an_error() -> None:
    script = f"{sys.executable} -m ci_compiler variants | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {script}"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("pytorch-python313-cpu-avx2 ")


@pytest.mark.parametrize("argv", [["--version"], ["--help"]])
def test_version_and_help_import_nothing_heavy(argv: list[str]) -> None:
    script = (
        "import sys\nfrom ci_compiler.cli.compile import main\n"
        f"sys.argv = ['ci-compile', *{argv!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for heavy in ("ruamel", "jsonschema", "rich", "github", "yaml", "inspect"):
        assert f"'{heavy}'" not in done.stderr
    assert __version__ in done.stdout or "usage" in done.stdout


def test_a_check_imports_only_what_it_uses(tmp_path: Path) -> None:
    assert ci("--bundled", "--root", str(tmp_path)) == 0
    script = (
        "import sys\nbefore = set(sys.modules)\nfrom ci_compiler.cli.compile import main\n"
        f"sys.argv = ['ci-compile', '--check', '--bundled', '--root', {str(tmp_path)!r}]\nassert main() == 0\n"
        "print(*sorted({*sys.modules} - before), sep='\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    own = [name for name in imported if name.split(".")[0] == "ci_compiler"]
    assert own == CHECK_IMPORTS.read_text("utf-8").split(), f"name a module in {CHECK_IMPORTS.name} if a check needs it"
    others = {name.split(".")[0] for name in imported} - sys.stdlib_module_names - {"ci_compiler"}
    assert {name for name in others if "cython" not in name} == {"yaml"}
    assert {"ctypes", "difflib", "shutil", "socket", "subprocess", "tempfile", "tomllib"}.isdisjoint(imported)


def test_what_every_job_runs_does_not_import_pygithub() -> None:
    """It takes longer than all else that these commands import."""
    stages = "benchmark, build, doctor, fetch, publish_run, smoke, suite"
    script = f"import sys; from ci_compiler.cli.runner import {stages}; sys.exit('requests' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_is_a_command_too(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`help` prints what `--help` prints, for the command and for a subcommand; an unknown one is refused."""
    monkeypatch.setenv("COLUMNS", "80")

    def said(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            run(PROGRAMS[name], words)
        assert ended.value.code == 0
        return capsys.readouterr().out

    assert said("help") == said("--help") != ""
    assert said("help", "list" if name == "ci-runner" else "sync").startswith(f"usage: {name} ")
    assert "COMMAND" in said("help", "help")
    with pytest.raises(SystemExit) as ended:
        run(PROGRAMS[name], ["help", "nosuch"])
    assert (ended.value.code, capsys.readouterr().err.count("\n")) == (2, 1)


def test_help_and_version_import_little(tmp_path: Path) -> None:
    """Nothing that takes long to import: they take at most three times as long as Python alone."""
    slow = {"typing", "dataclasses", "inspect", "pathlib", "shutil", "ci_compiler.errors", "ci_compiler.cli.console"}
    for entry in ("ci_compiler.__main__", "ci_compiler.cli.runner"):
        for words in (["--version"], ["--help"], ["help"]):
            code = f"import sys; before = set(sys.modules)\nfrom {entry} import main\nsys.argv[1:] = {words!r}\n"
            code += (
                "import atexit; atexit.register(lambda: print(*(sys.modules.keys() - before), file=sys.stderr)); main()"
            )
            done = subprocess.run(
                [sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
            )
            assert slow & set(done.stderr.split()) == set(), (entry, words)
