"""The commands of a job where Linux is taken away (`tests.elsewhere`): as on macOS, and as on Windows."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import ci_compiler
from tests.backends import wheel
from tests.backends.project import MANIFEST, Project, leave_result
from tests.elsewhere import describe, lacking
from tests.ntfs import disk, mounts

SOURCE = str(Path(__file__).parents[2])
PLATFORMS = {"darwin": "aarch64-darwin", "win32": "x86_64-windows"}
NAMES = {name: f"fastpath-{wheel.TAG}-cpu-{system}" for name, system in PLATFORMS.items()}
MACOS, WINDOWS = ("Apple M4", 34.3), ("AMD EPYC 9V74", 17.1)
"""The processor and the memory, in GB, that the programs of the systems print."""

WHOLE = {"fcntl": "flock", "grp": "getgrnam", "pwd": "getpwnam", "resource": "setrlimit", "termios": "tcgetattr"}
"""A call of each module that Windows lacks."""

CODE = Path(ci_compiler.__file__).parent
PROGRAMS = ("rm", "mkdir", "cp", "test", "ln", "cat", "sh", "sleep", "env", "mv", "touch")
"""What declared commands use; on Windows, only Git's Bash finds them."""

TASKKILL = """#!{python}
import os, signal, sys
assert sys.argv[1:4] == ["/T", "/F", "/PID"], sys.argv
parents = {{}}
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        fields = open(f"/proc/{{name}}/stat").read().rpartition(")")[2].split()
    except OSError:
        continue
    if fields[0] != "Z":
        parents[int(name)] = int(fields[1])
ended = [int(sys.argv[4])]
if ended[0] not in parents:
    sys.exit(128)
for one in ended:
    ended += [child for child, parent in parents.items() if parent == one]
for one in ended:
    os.kill(one, signal.SIGKILL)
"""

PYTHON = """#!/bin/sh
# Python as on the other system: it needs the folder of the system, and its environments have another layout.
if [ -z "$SYSTEMROOT$APPLE" ]; then echo "Fatal Python error: failed to get random numbers" >&2; exit 1; fi
case "$1" in -3*) [ "$1" = "-{version}" ] || exit 103; shift;; esac
if [ "$1 $2" = "-m venv" ]; then
  cp -a "{environment}" "$3"
  exit
fi
exec "{real}" "$@"
"""

HOST = """#!/bin/sh
exec env PYTHONPATH="{source}" "{real}" -m tests.elsewhere "{facts}" python "$@"
"""

OF_ENVIRONMENT = """#!/bin/sh
# The Python of an environment. A test, which is isolated, runs where Linux is taken away; pip does not.
if [ -z "$SYSTEMROOT{apple}" ]; then echo "Fatal Python error: failed to get random numbers" >&2; exit 1; fi
if [ "$1" = -I ]; then export ELSEWHERE="{facts}"; else unset ELSEWHERE; fi
exec "${{0%/*}}/python-real" "$@"
"""

START = "import os; os.environ.get('ELSEWHERE') and exec(open({!r}).read())\n"
ENTER = """
import os, sys
sys.path.append({source!r})
from tests import elsewhere
elsewhere.enter(os.environ["ELSEWHERE"])
sys.path.pop()
"""

SYSCTL = """#!/bin/sh
case "$2" in machdep*) echo "Apple M4";; hw.memsize) echo 34359738368;; esac
"""

OF_WINDOWS = {
    "bash": "#!/bin/sh\necho 'Windows Subsystem for Linux has no installed distributions' >&2\nexit 1\n",
    "python": "#!/bin/sh\necho 'Python was not found; run without arguments to install' >&2\nexit 1\n",
    "powershell": '#!/bin/sh\ncase "$4" in *Processor*) echo "AMD EPYC 9V74";; *) echo 17179869184;; esac\n',
    "taskkill": TASKKILL.format(python=sys.executable),
}
"""Programs of Windows. WSL's Bash and the place of an uninstalled Python are on PATH before others."""


class System:
    """A system: its programs, the folders of PATH, and the environment that its Python makes."""

    def __init__(self, folder: Path, platform: str) -> None:
        self.folder, self.platform, self.windows = folder, platform, platform == "win32"
        self.suffix = ".exe" if self.windows else ""
        self.facts, self.environment = folder / "facts.json", folder / "environment"
        self.git, self.system, self.unix = folder / "Git/cmd", folder / "System32", folder / "usr"
        self.path = [self.system, self.git, self.unix]
        for one in (*self.path, folder / "Git/bin"):
            one.mkdir(parents=True)
        self._write_programs()
        self._make_environment()
        describe(self.facts, platform, folder / f"host{self.suffix}", lacking(platform))

    def _write_programs(self) -> None:
        for name in PROGRAMS:
            (self.unix / name).symlink_to(shutil.which(name) or name)
        layout = PYTHON.format(version=wheel.PYTHON, environment=self.environment, real=sys.executable)
        host = HOST.format(source=SOURCE, real=sys.executable, facts=self.facts)
        scripts = {self.unix / "python": layout, self.folder / f"host{self.suffix}": host}
        scripts |= {self.git / f"git{self.suffix}": f'#!/bin/sh\nexec "{shutil.which("git")}" "$@"\n'}
        bash = f'#!/bin/sh\nexec "{shutil.which("bash")}" "$@"\n'
        if self.windows:
            scripts |= {self.folder / "Git/bin/bash.exe": bash, self.system / "py.exe": layout}
            scripts |= {self.system / f"{name}.exe": text for name, text in OF_WINDOWS.items()}
        else:
            scripts |= {self.unix / "bash": bash, self.unix / f"python{wheel.PYTHON}": layout}
            scripts |= {self.unix / "sysctl": SYSCTL}
        for path, text in scripts.items():
            _write(path, text)

    def _make_environment(self) -> None:
        home = self.environment
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        packages = next(home.glob("lib/python*/site-packages"))
        (packages / "elsewhere.pth").write_text(START.format(str(packages / "elsewhere.start")), "utf-8")
        (packages / "elsewhere.start").write_text(ENTER.format(source=SOURCE), "utf-8")
        bin_folder = home / "bin"
        if self.windows:
            bin_folder = bin_folder.rename(home / "Scripts")
        (bin_folder / "python").rename(bin_folder / "python-real")
        for name in {"python", f"python{self.suffix}"}:  # Git's Bash finds both by the first name
            text = OF_ENVIRONMENT.format(facts=self.facts, apple="" if self.windows else "$HOME")
            _write(bin_folder / name, text)

    def variables(self, folder: Path) -> dict[str, str]:
        """The environment of a command, whose home is `folder`."""
        return {
            "PATH": os.pathsep.join(map(str, self.path)),
            "PATHEXT": ".exe",
            "SYSTEMROOT" if self.windows else "APPLE": "C:\\Windows",
            "HOME": str(folder),
            "PYTHONPATH": SOURCE,
            "PYTHONIOENCODING": "cp1252" if self.windows else "utf-8",
            "PYTHONWARNDEFAULTENCODING": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "TMPDIR": str(folder / "temporary"),
            **{f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    path.chmod(0o755)


class Elsewhere(Project):
    """The wheel project on a machine of another system."""

    def __init__(self, folder: Path, system: System) -> None:
        self.root, self.index, self.system = folder / "repository", folder / "index", system
        self.windows, self.suites = system.windows, dict[str, Any]()
        self.environment = system.variables(folder) | {"INDEX": str(self.index)}
        (folder / "temporary").mkdir()
        self.start()

    def run(self, *command: str, status: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        if command[0] == "git":
            command = (shutil.which("git") or "git", *command[1:])
        return super().run(*command, status=status, **environment)

    def declare(self, smoke: dict[str, Any] | None = None, **command: Any) -> None:
        spec = wheel.spec(smoke, **command)
        spec["branches"]["main"].pop("cuda")
        spec["packages"]["fastpath"]["suites"] = self.suites
        row = {"platform": PLATFORMS[self.system.platform], "accelerator": "cpu", "python": wheel.PYTHON}
        spec["matrix"] = {"rows": [row]}
        hosted = {"hosted": "windows-2025" if self.windows else "macos-26"}
        spec["runners"] = {"machine": hosted | {"stages": ["build", "publish", "cpu-test"]}}
        script = wheel.FILES["ci/build.sh"].replace('"python$VARIANT_PYTHON"', "python")
        (self.root / "ci/build.sh").write_text(script, "utf-8")
        path = self.root / ".github/ci-matrix.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(spec), "utf-8")
        self.commit()

    def job(self, *words: str, status: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", "tests.elsewhere", str(self.system.facts), "ci-runner", *words)
        done = self.run(*command, status=status, **env)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def facts(self) -> tuple[str, str, float]:
        """What `detect` says of the machine: its system, processor and memory."""
        found = json.loads(self.job("detect", "--json").stdout)
        return found["system"], found["cpu"]["model"], found["memory"]


@pytest.fixture(scope="session", params=PLATFORMS)
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> System:
    """Each of the systems, with its programs."""
    return System(tmp_path_factory.mktemp("system"), request.param)


@pytest.fixture
def machine(system: System, tmp_path: Path) -> Iterator[Elsewhere]:
    """A machine of the system. Its checkout and temporary files are on a disk of Windows where one can be mounted."""
    with disk(tmp_path, "ignore_case") if system.windows and mounts() else nullcontext(tmp_path) as root:
        yield Elsewhere(root, system)


SUITE = """
import fastpath
import os
assert fastpath.double(2) == 4
os.makedirs("reports", exist_ok=True)
with open("reports/unit.xml", "w", encoding="utf-8") as file:
    file.write("<testsuite><testcase classname='Tests' name='double'/></testsuite>")
"""


def test_the_stages_of_a_wheel_run_from_the_build_to_the_index(machine: Elsewhere) -> None:
    windows, name = machine.windows, NAMES[machine.system.platform]
    (machine.root / "ci/suite.py").write_text(SUITE, "utf-8")
    (machine.root / "ci/smoke.py").write_text("import fastpath\nprint('\\u2713')\n", "utf-8")
    machine.suites = {"unit": {"command": "python ci/suite.py", "minutes": 5, "junit": "reports/*.xml"}}
    machine.declare({"python": "ci/smoke.py"})
    assert machine.facts() == (PLATFORMS[machine.system.platform], *(WINDOWS if windows else MACOS))
    assert "tools         ok       bash" in machine.job("doctor", "--for", "build", name).stdout
    machine.job("build", name, "--branch", "main")
    files = {
        f"files/{path.name}": f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in (machine.root / "build-output/files").iterdir()
    }
    assert machine.manifest["closure"] == files
    assert list(files) == ["files/fastpath-1.4.0-py3-none-any.whl"]
    assert machine.manifest["machine"]["system"] == PLATFORMS[machine.system.platform]
    machine.job("smoke", name, "--stage", "cpu-test", "--manifest", MANIFEST)
    assert machine.checks()["smoke"] == ("ok", "smoke.py ended without an error")
    machine.job("suite", name, "--suite", "unit", "--shard", "1/1", "--manifest", MANIFEST)
    leave_result(machine.root, machine.manifest)
    place = ("--branch", "main", "--commit", machine.manifest["commit"], "--manifest", MANIFEST)
    machine.job("publish", name, *place, PUBLISH_TOKEN=wheel.TOKEN)
    assert [path.name for path in machine.index.rglob("*.whl")] == ["fastpath-1.4.0-py3-none-any.whl"]


@pytest.mark.parametrize("system", ["win32"], indirect=True)
def test_a_crash_and_wrong_line_ends_are_named_on_windows(machine: Elsewhere) -> None:
    name = NAMES["win32"]
    (machine.root / "ci/smoke.py").write_text("import ctypes\nctypes.string_at(0)\n", "utf-8")
    machine.declare({"python": "ci/smoke.py"})
    machine.job("build", name, "--branch", "main")
    machine.job("smoke", name, "--stage", "cpu-test", "--manifest", MANIFEST, status=1)
    assert machine.checks()["smoke"][1].startswith("smoke was ended by SIGSEGV")
    script = machine.root / "ci/build.sh"
    script.write_text(script.read_text("utf-8"), "utf-8", newline="\r\n")
    machine.commit()
    refused = machine.job("build", name, "--branch", "main", status=2)
    assert "ci/build.sh: its lines end with CR LF; write `ci/build.sh text eol=lf`" in refused.stderr


@pytest.mark.parametrize("system", ["win32"], indirect=True)
def test_a_machine_without_long_paths_builds_nothing(machine: Elsewhere) -> None:
    refused = machine.job("doctor", "--for", "build", NAMES["win32"], status=1, SHORT_PATHS="1")
    assert re.search(r"\nbuild-folder +failed .*, where paths have at most 260 characters\n", refused.stdout)
    assert "LongPathsEnabled" in refused.stderr


STARTING = """
import os
import sys
import time
from pathlib import Path

from ci_compiler import process
from ci_compiler.errors import InputError
from ci_compiler.system import lock, runs

folder, shell = Path(sys.argv[1]), process.find_program("bash", install="")
process.GRACE = 0.5


def left(name):
    while not (text := (folder / name).read_text("utf-8") if (folder / name).exists() else "").endswith("\\n"):
        time.sleep(0.05)
    return int(text)


# What a program started ends with it, at the limit and where it was stopped.
for how in ("limit", "stopped", "silent"):
    script = f"trap '' TERM; sleep 600 & echo $! >{folder}/{how}; echo begun >&2; wait; sleep 600"
    if how == "silent":
        limits = {"seconds": 600, "patience": 2, "memory": 2**40, "env": os.environ}
        ended = process.follow_errors([shell, "-c", script], bool, **limits)
    else:
        stopped = (lambda: left("stopped") > 0) if how == "stopped" else None
        ended = process.ask([shell, "-c", script], seconds=3, stopped=stopped)
    assert ended.status == process.PAST_LIMIT, ended
    child, end = left(how), time.monotonic() + 60
    while runs(child):
        assert time.monotonic() < end, f"{how}: the child still runs"
        time.sleep(0.05)
assert runs(os.getpid()) and runs(1)

# Lines, whatever ends them, and what comes after the last.
lines = []
ended = process.follow([shell, "-c", r"printf 'a\\r\\nb\\n'; sleep 1; printf c; exit 3"], lines.append, seconds=600)
assert (ended.status, lines) == (3, ["a", "b", "c"]), (ended, lines)

# A lock waits for the other, which ends.
held = folder / "held"
other = process.start([sys.executable, str(folder / "other.py"), str(held)], env={**os.environ}, folder=folder)
left("locked")
with held.open("w") as file:
    lock(file.fileno())
assert left("released")
"""
OTHER = """
import sys
import time
from pathlib import Path

from ci_compiler.system import lock

with open(sys.argv[1], "w", encoding="utf-8") as file:
    lock(file.fileno())
    Path("locked").write_text("1\\n", "utf-8")
    time.sleep(1)
    Path("released").write_text("1\\n", "utf-8")
"""


@pytest.mark.parametrize("console", [{}, {"NO_CONSOLE": "1"}], ids=["console", "service"])
def test_programs_end_with_what_they_started_and_locks_are_waited_for(
    system: System, tmp_path: Path, console: dict[str, str]
) -> None:
    (tmp_path / "starting.py").write_text(STARTING, "utf-8")
    (tmp_path / "other.py").write_text(OTHER, "utf-8")
    command = [sys.executable, "-m", "tests.elsewhere", system.facts, "python", tmp_path / "starting.py", tmp_path]
    variables = system.variables(tmp_path) | console
    done = subprocess.run(command, env=variables, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr


PLANTED = ("git", "python", f"python{wheel.PYTHON}", "powershell", "taskkill")
"""Programs with these names are in the checkout below."""

STARTING_OWN = """
import os
from ci_compiler import process
from ci_compiler.system import SYSTEM

process.GRACE = 0.1
shell = process.find_program("bash", install="")
assert process.ask([shell, "-c", "trap '' TERM; sleep 600"], seconds=0.5).status == process.PAST_LIMIT
for name in ("bash", "git", "python", "powershell", "taskkill"):
    path = process.located(name)
    assert path is None or os.path.isabs(path), path
"""


@pytest.mark.parametrize("path", ["", "."], ids=["PATH", "the current folder on PATH"])
def test_no_program_of_a_checkout_is_taken_for_one_of_the_machine(system: System, path: str, tmp_path: Path) -> None:
    """Windows looks for programs in the current folder before it looks on PATH."""
    for name in PLANTED:
        _write(tmp_path / f"{name}{system.suffix}", f"#!/bin/sh\necho ran >{tmp_path}/ran\n")
    (tmp_path / "starting.py").write_text(STARTING_OWN, "utf-8")
    variables = system.variables(tmp_path)
    variables["PATH"] = os.pathsep.join(filter(None, (path, variables["PATH"])))
    for words in (["python", tmp_path / "starting.py"], ["ci-runner", "detect"]):
        command = [sys.executable, "-m", "tests.elsewhere", system.facts, *words]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_folder_in_place_of_a_file_is_called_one(system: System, tmp_path: Path) -> None:
    """Windows says that it may not be opened."""
    command = [sys.executable, "-m", "tests.elsewhere", system.facts, "ci-compile", "--check", "--spec", tmp_path]
    variables = system.variables(tmp_path)
    done = subprocess.run(command, env=variables, capture_output=True, encoding="utf-8", check=False)
    assert done.stderr == f"error: {tmp_path}: is a directory; a spec is a YAML file [spec-unreadable]\n"


# Each call that is missing, planted once.


def unguarded(tree: ast.Module, absent: Collection[str]) -> Iterator[str]:
    """The modules of `absent` that a module imports on every system when it is imported itself."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            yield from (name for name in names if name in absent)


def test_no_module_imports_what_windows_does_not_have() -> None:
    absent = {name for name, names in lacking("win32").items() if not names}
    assert absent > {"fcntl", "grp", "pwd", "resource", "termios"}
    for name in absent:
        assert list(unguarded(ast.parse(f"import os, {name}\n"), absent)) == [name]
        assert list(unguarded(ast.parse(f"from {name} import *\n"), absent)) == [name]
    found = {path: [*unguarded(ast.parse(path.read_bytes()), absent)] for path in CODE.rglob("*.py")}
    assert not {path: names for path, names in found.items() if names}


OF_NIX = {"nix_environment", "nix_store", "own_store", "staged", "tested"}
"""Modules that no job on Windows calls."""


def test_a_file_that_another_program_holds_open_ends_no_command() -> None:
    """Windows does not remove it; no temporary folder may fail for that."""
    failing = set()
    for path in CODE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("TemporaryDirectory"):
                options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                if options.get("ignore_cleanup_errors") != "True":
                    failing.add(path)
    assert {path.stem for path in failing if path.parent.name != "adoption"} == OF_NIX


def test_only_one_module_sends_signals_to_processes_by_number() -> None:
    """On Windows, os.kill ends any process, and 0 means Ctrl-C; types do not show that."""
    found = {path.name for path in CODE.rglob("*.py") if "os.kill(" in path.read_text("utf-8")}
    assert found == {"system.py"}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_gate_finds_every_call_that_a_system_lacks(platform: str, tmp_path: Path) -> None:
    """Each name is planted once, and mypy must find each; `.ci/run` runs it for the platform."""
    planted = [
        f"{module}.{name}"
        for module, names in lacking(platform).items()
        for name in names
        if module in {"fcntl", "mmap", "os", "resource", "select", "selectors", "signal", "socket", "time"}
    ]
    planted += [f"{name}.{call}" for name, call in WHOLE.items() if platform == "win32"]
    modules = sorted({name.split(".")[0] for name in planted})
    lines = [*(f"import {module}" for module in modules), *planted]
    (tmp_path / "planted.py").write_text("\n".join(lines) + "\n", "utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file=", "--platform", platform, "--cache-dir", os.devnull]
    done = subprocess.run([*command, "planted.py"], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    found = {int(number) for number in re.findall(r"^planted\.py:([0-9]+): error:", done.stdout, re.MULTILINE)}
    assert [lines[number - 1] for number in range(len(modules) + 1, len(lines) + 1) if number not in found] == []
    assert len(planted) > 100
    loop = re.search(r"for platform in (.*); do", (CODE.parent / ".ci/run").read_text("utf-8"))
    assert loop
    assert platform in loop[1].split()
