"""The stages of a wheel where Linux is taken away: as on macOS, and as on Windows."""

from __future__ import annotations

import hashlib
import re

import pytest

from tests.backends import wheel
from tests.backends.project import MANIFEST, leave_result
from tests.runner.other_systems import PLATFORMS, Elsewhere, a_machine, each_system  # noqa: F401

pytestmark = pytest.mark.weekly

NAMES = {name: f"fastpath-{wheel.TAG}-cpu-{system}" for name, system in PLATFORMS.items()}
MACOS, WINDOWS = ("Apple M4", 34.3), ("AMD EPYC 9V74", 17.1)
"""The processor and the memory, in GB, that the programs of the systems print."""


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
