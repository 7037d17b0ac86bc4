"""Runs the stages of a wheel, from the doctor to the index, in CPython for Windows under Wine (`tests.windows`).

    python -m tests.windows.stages FOLDER GIT WORK

FOLDER is that Python. GIT has Git for Windows, or what stands for it: `cmd/git.exe`, and `bin/bash.exe` with `mkdir`,
`cp` and `rm`. WORK is a folder to make, for the repository and the index. Each command is printed with its status.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.backends import wheel
from tests.backends.project import MANIFEST, SOURCE, Project, leave_result

START = "import sys; from ci_compiler.cli.runner import main; sys.exit(main())"
NAME = f"fastpath-{wheel.TAG}-cpu-x86_64-windows"
SETTINGS = {"safe.directory": "*", "core.filemode": "false"}
"""What Git for Windows writes into the repositories that it makes, or does not ask of them."""


def _path(path: Path) -> str:
    return "Z:" + str(path).replace("/", "\\")


class Windows(Project):
    """The wheel project, whose jobs run under Wine."""

    def __init__(self, python: Path, git: Path, folder: Path) -> None:
        self.root, self.index, self.python = folder / "repository", folder / "index", python
        folder.mkdir(parents=True)
        settings = [*SETTINGS.items()]
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "WINEPREFIX": str(python.parents[2]),
            "WINEDEBUG": "-all",
            "WINEPATH": ";".join(map(_path, (git / "cmd", python.parent))),
            "PYTHONPATH": _path(SOURCE),
            "PYTHONWARNDEFAULTENCODING": "1",
            "INDEX": _path(self.index),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_COUNT": str(len(settings)),
            **{f"GIT_CONFIG_KEY_{number}": name for number, (name, _) in enumerate(settings)},
            **{f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(settings)},
            **{f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        self.start()

    def declare(self, *_: object, **__: object) -> None:
        spec = wheel.spec({"python": "ci/smoke.py"})
        spec["branches"]["main"].pop("cuda")
        suite = {"command": "python ci/suite.py", "minutes": 5, "junit": "reports/*.xml"}
        spec["packages"]["fastpath"]["suites"] = {"unit": suite}
        row = {"platform": "x86_64-windows", "accelerator": "cpu", "python": wheel.PYTHON}
        spec["matrix"] = {"rows": [row]}
        spec["runners"] = {"machine": {"hosted": "windows-2025", "stages": ["build", "publish", "cpu-test"]}}
        scripts = {
            "ci/build.sh": wheel.FILES["ci/build.sh"].replace('"python$VARIANT_PYTHON"', "python"),
            "ci/smoke.py": "import fastpath\nassert fastpath.double(2) == 4\n",
            "ci/suite.py": SUITE,
            ".github/ci-matrix.yaml": json.dumps(spec),
        }
        for name, text in scripts.items():
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(text, "utf-8")
        self.commit()

    def job(self, *words: str, status: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = self.run("wine", str(self.python), "-c", START, *words, status=None, **env)
        print(f"ci-runner {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}", flush=True)
        assert done.returncode == status
        assert "Traceback" not in done.stderr
        return done


SUITE = """
import os
import fastpath
os.makedirs("reports", exist_ok=True)
with open("reports/unit.xml", "w", encoding="utf-8") as file:
    file.write("<testsuite><testcase classname='Tests' name='double'/></testsuite>")
"""


def main(folder: str, git: str, work: str) -> None:
    """Runs the stages. Raises AssertionError if one fails."""
    python = Path(folder).absolute() / "drive_c/Python311/python.exe"
    machine = Windows(python, Path(git).absolute(), Path(work).absolute())
    machine.job("detect")
    machine.job("doctor", "--for", "build", NAME)
    machine.job("build", NAME, "--branch", "main")
    machine.job("smoke", NAME, "--stage", "cpu-test", "--manifest", MANIFEST)
    machine.job("suite", NAME, "--suite", "unit", "--shard", "1/1", "--manifest", MANIFEST)
    leave_result(machine.root, machine.manifest)
    place = ("--branch", "main", "--commit", machine.manifest["commit"], "--manifest", MANIFEST)
    machine.job("publish", NAME, *place, PUBLISH_TOKEN=wheel.TOKEN)
    assert [path.name for path in machine.index.rglob("*.whl")] == ["fastpath-1.4.0-py3-none-any.whl"]


if __name__ == "__main__":
    main(*sys.argv[1:])
