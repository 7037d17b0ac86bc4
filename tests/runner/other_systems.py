"""Machines on which Linux is taken away (`tests.elsewhere`): as on macOS, and as on Windows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.backends import wheel
from tests.backends.project import Project
from tests.elsewhere import describe, lacking

SOURCE = str(Path(__file__).parents[2])
PLATFORMS = {"darwin": "aarch64-darwin", "win32": "x86_64-windows"}
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
            write_program(path, text)

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
            write_program(bin_folder / name, text)

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


def write_program(path: Path, text: str) -> None:
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


@pytest.fixture(scope="session", params=PLATFORMS, name="system")
def each_system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> System:
    """Each of the systems, with its programs."""
    return System(tmp_path_factory.mktemp("system"), request.param)


@pytest.fixture(name="machine")
def a_machine(system: System, tmp_path: Path) -> Elsewhere:
    """A machine of the system."""
    return Elsewhere(tmp_path, system)
