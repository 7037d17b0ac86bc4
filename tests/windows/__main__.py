"""Runs CPython for Windows under Wine: Windows' rules of paths, files and processes as Wine has them.

    python -m tests.windows FOLDER -m pytest -n 0 tests/spec
    python -m tests.windows FOLDER -m ci_compiler --version

The first call makes FOLDER, with packages from the network. `python311.dll` and the extension modules are in the wheel
of panda3d for Windows; the rest of the standard library is that of this Python, which must be 3.11. It needs wine,
wine64 and gcc-mingw-w64-x86-64-win32. No test of the gate uses it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

SOURCE = Path(__file__).parents[2]
GCC = "x86_64-w64-mingw32-gcc"
TESTING = ("colorama", "pytest", "pytest-xdist", "hypothesis", "packaging", "markdown-it-py", "archspec", "pip")
FOR_WINDOWS = ("--platform", "win_amd64", "--python-version", "3.11", "--only-binary", ":all:")
ABSENT = shutil.ignore_patterns("site-packages", "dist-packages", "lib-dynload", "__pycache__", "test", "config-*")
SYSTEMS_OWN = ("api-ms-", "tcl", "tk", "_tkinter")


def prepare(home: Path) -> None:
    """Makes the folder of a Python for Windows."""
    if sys.version_info[:2] != (3, 11):
        raise SystemExit("the DLL is of Python 3.11: run this with that version")
    shutil.copytree(Path(os.__file__).parent, home / "Lib", ignore=ABSENT)
    packages = home / "Lib/site-packages"
    with tempfile.TemporaryDirectory() as folder:
        _pip("download", "--no-deps", "--dest", folder, "panda3d==1.10.16")
        _unpack(next(Path(folder).glob("panda3d*.whl")), home)
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text("utf-8"))["project"]
    _pip("install", "--target", str(packages), *project["dependencies"], *TESTING)
    (packages / "source.pth").write_text("Z:" + str(SOURCE).replace("/", "\\") + "\n", "utf-8")
    _compile(home)


def _pip(command: str, *words: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([sys.executable, "-m", "pip", command, *quiet, *FOR_WINDOWS, *words], check=True)


def _unpack(wheel: Path, home: Path) -> None:
    """Takes the DLL of Python and the extension modules out of a wheel."""
    (home / "DLLs").mkdir()
    with ZipFile(wheel) as archive:
        for entry in archive.namelist():
            folder, _, name = entry.partition("/")
            if folder == "deploy_libs" and not name.startswith(SYSTEMS_OWN):
                below = "" if name.lower().startswith(("python", "vcruntime")) else "DLLs"
                (home / below / name).write_bytes(archive.read(entry))


def _compile(home: Path) -> None:
    """Makes the programs of Python, the DLL of its stable ABI, which passes every name on, and what Wine lacks."""
    here = Path(__file__).parent
    subprocess.run([GCC, "-municode", "-O1", here / "python.c", "-o", home / "python.exe"], check=True)
    launcher = home / "Lib/venv/scripts/nt/python.exe"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(home / "python.exe", launcher)
    random = [GCC, "-shared", here / "random.c", "-o", home / "bcryptprimitives.dll", "-ladvapi32"]
    subprocess.run(random, check=True)
    objdump = [GCC.replace("gcc", "objdump"), "-p", home / "python311.dll"]
    listed = subprocess.run(objdump, check=True, capture_output=True, encoding="utf-8").stdout
    names = re.findall(r"^\t\[ *[0-9]+\].* ([A-Za-z_][A-Za-z0-9_]*)$", listed, re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        exports = Path(folder, "python3.def")
        exports.write_text("EXPORTS\n" + "".join(f"{name} = python311.{name}\n" for name in names), "utf-8")
        subprocess.run([GCC, "-shared", "-nostdlib", "-Wl,-e0", exports, "-o", home / "python3.dll"], check=True)


def main(folder: str, *words: str) -> int:
    """Runs Python with `words`; its status."""
    prefix = Path(folder).absolute()
    home = prefix / "drive_c/Python311"
    wine = {"WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "WINEARCH": "win64"}
    environment = os.environ | wine | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    if not prefix.exists():
        version = ["reg", "add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f"]
        subprocess.run(["wine", *version], env=environment, check=True, stdin=subprocess.DEVNULL, capture_output=True)
        prepare(home)
    command = ["wine", str(home / "python.exe"), *words]
    with subprocess.Popen(  # a pipe: under Wine, Python does not start with a file for its output
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout
        while chunk := os.read(process.stdout.fileno(), 1 << 16):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
