"""Runs small inputs that once went wrong, and judges the output: `python -m tests.cases FOLDER [NAME...]`.

FOLDER holds the inputs, by groups: `build/`, `machines/`, `sequences/`. Their words `${PROJECT}`, `${BIN}` and
`${WORK}` stand for this checkout, its programs, and a temporary folder, in which a copy runs. NAME is the begin of a
path below FOLDER (`machines/03`, `sequences`); without names, all run. `cases.toml` says what is right. A case whose
tool is missing is "not run", which is not a pass. Ends with 1 unless every output is right.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.conftest import on_a_disk
from tests.e2e.world import IDENTITY, TAG, _remove

PROJECT, BIN = Path(__file__).parents[1], Path(sys.executable).parent
PATH = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"

SECONDS, SLOWER = 3600, 3
"""The time limit of a case, and the factor for the times in its script, which are those of an idle machine."""

SHARED, PLACES = ("lib.py", "rep.py", "tamper.py"), ("e2e", "cases", "git")
"""What the sequences share, and the folders below `${WORK}` in which they look for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A row of `cases.toml`, which says what the fields mean."""

    right: Sequence[str]
    wrong: Sequence[str] = ()
    tools: Sequence[str] = ()
    command: str = ""
    after: str = ""
    adapted: Sequence[Sequence[str]] = ()


ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
CASES = {name: Case(**row) for name, row in ROWS.items()}


def chosen(names: Sequence[str]) -> list[str]:
    """The cases whose names begin with one of `names` (all, if there are none), and those that they are run after."""
    wanted = [name for name in CASES if not names or name.startswith(tuple(names))]
    return [name for name in CASES if name in {*wanted, *(CASES[one].after for one in wanted)}]


def prepare(folder: Path, work: Path) -> Path:
    """A copy of `folder` below `work` in which the words have their values."""
    words = {"${PROJECT}": PROJECT, "${BIN}": BIN, "${WORK}": work, "python311": TAG, "/tmp/.": f"{work}/."}  # noqa: S108
    words |= {'"CI_RUNNER_FENCE":""': '"UNFENCED":""'}  # there is no network to close
    copy = work / "copy"
    shutil.copytree(folder, copy)
    for path in (copy, *copy.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
        if path.is_file():
            text = path.read_text("utf-8")
            for word, value in words.items():
                text = text.replace(word, str(value))
            path.write_text(re.sub(r"(?<=start )(\w+) (\d+)", _slower, text), "utf-8")
    for place in PLACES:
        (work / place / "w").mkdir(parents=True)
        for file in SHARED:
            shutil.copy(copy / "sequences" / file, work / place)
    (work / "tmp").mkdir()
    (work / "home/.config/nix").mkdir(parents=True)
    (work / "home/.config/nix/nix.conf").write_text("sandbox = false\nbuild-users-group =\n", "utf-8")
    return copy


def _slower(found: re.Match[str]) -> str:
    return f"{found[1]} {int(found[2]) * SLOWER}"


def run(case: Case, path: Path, work: Path) -> str:
    """What the case at `path` prints."""
    script = path / "run.sh" if path.is_dir() else path
    for old, new in case.adapted:
        script.write_text(script.read_text("utf-8").replace(old, new), "utf-8")
    command = [BIN / "python" if script.suffix == ".py" else "bash", script]
    if case.command:
        apart = ["unshare", "--mount"] if "unshare" in case.tools else []
        command = [*apart, "bash", "-c", case.command]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "GH_"))}
    environment |= {"HOME": str(work / "home"), "PATH": PATH, "PORT": str(port), **IDENTITY}
    environment |= {"TMPDIR": str(work / "tmp"), "WORK": str(work), "PROJECT": str(PROJECT), "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(
        list(map(str, command)),
        cwd=path if path.is_dir() else PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=SECONDS)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"{process.communicate()[0]}\nTRACEBACK: not ended after {SECONDS} s"


def judged(case: Case, text: str) -> str:
    """Why `text` is wrong, or its decisive lines."""
    found = {one: re.search(f"{one}.*", text, re.MULTILINE) for one in (*case.right, *case.wrong)}
    lacks, has = [one for one in case.right if not found[one]], [one for one in case.wrong if found[one]]
    if lacks or has:
        return f"wrong: {text}\nlacks {lacks}, has {has}"
    return "right: " + " | ".join(hit[0].strip()[:160] for hit in found.values() if hit)


def main(folder: Path, names: Sequence[str]) -> int:
    """Prints the verdict on each case; returns 1 unless all are right."""
    work, ended = on_a_disk(Path(tempfile.mkdtemp())), dict[str, str]()
    try:
        copy = prepare(folder, work)
        for name in chosen(names):
            case, [path] = CASES[name], [*copy.glob(f"{name}*")]
            missing = [tool for tool in case.tools if not shutil.which(tool, path=PATH)]
            missing += ["root"] if "unshare" in case.tools and os.geteuid() else []
            failed = case.after if not ended.get(case.after, "right").startswith("right") else ""
            why = f"not run: {', '.join(missing)} missing" if missing else f"not run: see {failed}" if failed else ""
            ended[name] = why or judged(case, run(case, path, work))
            print(name, ended[name], flush=True)
    finally:
        _remove(work)
    return 0 if ended and all(one.startswith("right") for one in ended.values()) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
