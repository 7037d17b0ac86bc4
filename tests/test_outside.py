"""Everything that comes from outside goes through one reader, and no message repeats a whole huge value."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ci_compiler
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.codes import Code
from ci_compiler.errors import LONGEST, InputError, wrong
from ci_compiler.outside import DEEPEST, UnreadableError, bytes_of, json_of, object_of, reading, text_of, xml_of
from tests.specs import small

PACKAGE = Path(ci_compiler.__file__).parent

PARSERS = {
    "json": {"load", "loads", "JSONDecoder"},
    "tomllib": {"load", "loads"},
    "yaml": {"load", "load_all", "safe_load", "safe_load_all", "compose", "compose_all", "parse", "scan"},
    "ET": {"fromstring", "fromstringlist", "parse", "iterparse", "XML", "XMLParser", "XMLPullParser"},
    "csv": {"reader", "DictReader"},
    "zipfile": {"ZipFile"},
    "tarfile": {"open", "TarFile"},
    "pickle": {"load", "loads", "Unpickler"},
    "ast": {"literal_eval", "parse"},
    "os": {"open", "fdopen"},
    "io": {"open", "FileIO"},
}
"""What parses a text or opens a file, by the name of its module."""

READERS = {"read_text", "read_bytes", "open", "stdin"}
"""The attributes of any object that read a file."""

ALLOWED = {
    "outside": "is the reader",
    # Data of the package itself, at paths that are not written beside `__file__`.
    "canary.repository": "its own files",
    "cli.compile.init": "its own files",
    "documents.overlay.written": "its own files",
    "recipes.proof": "its own files",
    "recipes.work_arounds": "its own files",
    "runner.deployment.rendering": "its own files",
    "spec.work_arounds": "its own files",
    # Files that run on other machines, without ci_compiler.
    "documents.overlay.files.check": "is copied; Nix passes it one argument",
    "hardware.families.cuda.probe": "is copied; reads the code in a library of the package",
    "hardware.families.rocm.probe": "is copied; reads the code in a library of the package",
    "runner.jobs.smoke_probe.gpu_libraries": "is copied; reads /proc/self",
    "runner.jobs.smoke_probe.shared": "is copied; reads what the test passes on",
    "runner.refuse_forks": "runs alone; refuses what it cannot read",
    # Formats with one reader of their own, which is bounded too.
    "github.artifacts": "the reader of archives, whose bytes are bounded",
    "publishing.images": "the reader of OCI archives, whose JSON texts and their depth are bounded",
    "spec.load": "the reader of YAML, whose bytes, depth and values are bounded",
    "spec.yaml_errors": "YAML that `spec.load` has bounded, to find what made it refuse it",
    "update.editing": "YAML that `spec.load` has read before",
    "update.remote": "an archive that git makes of a commit",
    # Files of the machine that are not parsed, or only their first bytes.
    "publishing.s3": "sends a file that it digests",
    "publishing.trusted": "sends a file",
    "checkout": "files of git, which a check with a stamp reads before it imports anything",
    "cli.runner.start": "locks a file",
    "cli.toolkit": "what pip wrote of this installation",
    "files.drift": "compares regular files with others, byte by byte",
    "sync.checkouts": "compares regular files with others, byte by byte",
    "runner.jobs.device_code": "files of any size, which `outside` unpacks and the readers of the families map",
    "runner.jobs.build": "the log that it wrote, of any size",
    "runner.jobs.reproduce": "the log that a job wrote, line by line",
}
"""The modules that may, and why."""


def own_names(trees: dict[str, ast.Module]) -> set[tuple[str, str]]:
    """The constants that are paths of the package's own files, as pairs of module and name."""
    assigned = [(module, node) for module, tree in trees.items() for node in tree.body if isinstance(node, ast.Assign)]
    imported = [
        (module, alias.asname or alias.name, (node.module or "", alias.name))
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    found: set[tuple[str, str]] = set()
    while True:
        more = {
            (module, target.id)
            for module, node in assigned
            if is_own(module, node.value, found)
            for target in node.targets
            if isinstance(target, ast.Name)
        } | {(module, name) for module, name, origin in imported if origin in found}
        if more <= found:
            return found
        found |= more


def is_own(module: str, node: ast.AST, own: set[tuple[str, str]]) -> bool:
    """Whether the expression `node` names a file beside its own module."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return (
        "__file__" in names
        or "__file__" in {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
        or any((module, name) in own for name in names)
    )


def writes(call: ast.Call) -> bool:
    """Whether a call opens a file only for writing."""
    words = [one.value for one in ast.walk(call) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    flags = {one.attr for one in ast.walk(call) if isinstance(one, ast.Attribute)}
    return any(set(word) & set("wax") and len(word) <= 3 for word in words) or "O_WRONLY" in flags


def other_readers(module: str, tree: ast.Module, own: set[tuple[str, str]]) -> Iterator[tuple[int, str]]:
    """The calls in `tree` that read or parse something, by their line."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "stdin"
            and isinstance(node.value, ast.Name)
            and node.value.id == "sys"
        ):
            yield node.lineno, "sys.stdin"
        what = reader(node.func) if isinstance(node, ast.Call) else ""
        if what and isinstance(node, ast.Call) and not is_own(module, node, own) and not writes(node):
            yield node.lineno, what


def reader(function: ast.expr) -> str:
    """The name of a function that reads or parses something; '' for any other."""
    match function:
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr in PARSERS.get(name, ()):
            return f"{name}.{attr}"
        case ast.Attribute(attr=attr) if attr in READERS:
            return attr
        case ast.Name(id="open"):
            return "open"
    return ""


@pytest.mark.slow
def test_nothing_else_reads_what_comes_from_outside() -> None:
    paths = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    trees = {name.removesuffix(".__init__"): ast.parse(path.read_text("utf-8")) for name, path in paths.items()}
    own = own_names(trees)
    found = {
        name.removeprefix("ci_compiler."): [f"line {line}: {what}" for line, what in other_readers(name, tree, own)]
        for name, tree in trees.items()
    }
    assert {name: places for name, places in found.items() if places and name not in ALLOWED} == {}
    assert [name for name, why in ALLOWED.items() if not found.get(name)] == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("json.loads(text)", "json.loads"),
        ("json.load(file)", "json.load"),
        ("path.read_text('utf-8')", "read_text"),
        ("path.read_bytes()", "read_bytes"),
        ("path.open()", "open"),
        ("path.open('rb')", "open"),
        ("open(path)", "open"),
        ("sys.stdin.buffer.read()", "sys.stdin"),
        ("tomllib.loads(text)", "tomllib.loads"),
        ("yaml.safe_load(text)", "yaml.safe_load"),
        ("ET.fromstring(text)", "ET.fromstring"),
        ("json.loads(OWN.read_bytes())", ""),
        ("json.loads(Path(__file__).with_name('a.json').read_bytes())", ""),
        ("path.open('w')", ""),
        ("path.open('ab')", ""),
    ],
)
def test_the_lint_finds_other_readers(line: str, what: str) -> None:
    tree = ast.parse(f"OWN = Path(__file__).with_name('own.json')\ndef f():\n    return {line}\n")
    found = [name for _, name in other_readers("m", tree, own_names({"m": tree}))]
    assert found == ([what] if what else [])


# The reader.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON: Expecting value"),
        (b"\xff", "is not UTF-8 text"),
        ("[1,]", "is not JSON: "),
        ("9" * 41, f"has the number {'9' * 40}…, which is out of range"),
        ("[1e999]", "has the number 1e999, which is out of range"),
        ("NaN", "has the number NaN, which is out of range"),
        ("-Infinity", "has the number -Infinity, which is out of range"),
        (r'["\ud800"]', "has half of a surrogate pair"),
        (r'{"\ud800": 1}', "has half of a surrogate pair"),
        ("[" * 101 + "]" * 101, f"is nested deeper than {DEEPEST} levels"),
        ('{"a":' * 900_000, f"is nested deeper than {DEEPEST} levels"),
        ("[" + "[]," * 1_000_000 + "[]]", "has more than 1,000,000 lists and objects, the limit for JSON"),
    ],
)
def test_json_is_bounded(text: str | bytes, said: str) -> None:
    with pytest.raises(UnreadableError) as error:
        json_of(text)
    assert said in str(error.value)
    json.dumps({"said": str(error.value)}, ensure_ascii=False).encode()


def test_json_within_the_bounds_is_read() -> None:
    assert json_of("[" * 100 + "]" * 100) == json.loads("[" * 100 + "]" * 100)
    assert json_of(b'\xef\xbb\xbf{"a": [1, -2.5e3, "\xc3\xa9", "\\ud83d\\ude00"]}') == {"a": [1, -2500.0, "é", "😀"]}
    with pytest.raises(UnreadableError, match="is not a JSON object"):
        object_of("[]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is not XML: no element found"),
        (b"<a>", "is not XML: no element found"),
        (b"<!DOCTYPE a><a/>", "has a document type"),
        (b"<a>" * 101 + b"</a>" * 101, f"is nested deeper than {DEEPEST} levels"),
        *(
            (f'<?xml version="1.0" encoding="{name}"?><a/>'.encode(), "is not XML")
            for name in ("x", "utf-7", "rot13", "zlib", "idna", "undefined")
        ),
    ],
)
def test_xml_is_bounded(text: bytes, said: str) -> None:
    with pytest.raises(UnreadableError, match=said):
        xml_of(text)


def test_the_place_in_a_text_is_named() -> None:
    with (
        pytest.raises(InputError, match=r"^a.json:2:2: is not JSON: Expecting value \[wrong-value\]$"),
        reading("a.json", Code.WRONG_VALUE),
    ):
        json_of("[\n ")
    with (
        pytest.raises(InputError, match=r"^a.json: is another thing \[wrong-value\]$"),
        reading("a.json", Code.WRONG_VALUE, "is another thing"),
    ):
        json_of("{}")["a"]


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(200_000_000)  # a hole: it takes no space


def in_a_process(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What `code` does, whose value is the exit code, in a process of its own: it might hang, or fill the memory."""
    imports = "import sys; from ci_compiler.cli.app import run; from ci_compiler.cli.compile import PROGRAM"
    command = [sys.executable, "-c", f"{imports}; sys.exit({code})"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


COMMANDS = {
    "spec": ["--check", "--spec"],
    "read": ["canary", "--read"],
    "machine": ["select", "--machine"],
    "history": ["forecast", "--bundled", "--history"],
}


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS.keys())
@pytest.mark.parametrize(
    ("make", "said"),
    [(pipe, "is not a regular file"), (device, "is not a regular file"), (huge, "is larger than "), (Path.mkdir, "")],
)
def test_only_regular_files_of_a_bounded_size_are_read(
    words: list[str], make: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    make(tmp_path / "it")
    done = in_a_process(f"run(PROGRAM, {[*words, str(tmp_path / 'it')]!r})", tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_standard_input_is_a_finding(tmp_path: Path) -> None:
    done = in_a_process("setattr(sys, 'stdin', None) or run(PROGRAM, ['--check', '--spec', '-'])", tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: standard input: is closed [spec-unreadable]\n")


def test_special_files_of_the_system_are_read(tmp_path: Path) -> None:
    assert text_of("/proc/self/status").startswith("Name:")
    (tmp_path / "a").write_bytes(b"\xff")
    assert text_of(tmp_path / "a", errors="replace") == "\ufffd"
    (tmp_path / "a").write_bytes(b"a\r\nb\rc\n")
    assert text_of(tmp_path / "a") == "a\nb\nc\n"
    with pytest.raises(IsADirectoryError):
        bytes_of(tmp_path)


# Messages.

HUGE = "x\x1b[31m" * 200_000


def spec_with(**more: object) -> str:
    return json.dumps(small(**more))


WRONG = {
    "key": ["--check", "--spec", lambda: spec_with(**{HUGE: 1})],
    "value": ["--check", "--spec", lambda: spec_with(owner=HUGE)],
    "gpu": ["--check", "--spec", lambda: spec_with(matrix={"python": ["3.13"], "isas": {}, "gpus": {HUGE: {}}})],
    "need": ["--check", "--spec", lambda: spec_with(packages={"pytorch": {"needs": [HUGE]}})],
    "number": [
        "--check",
        "--spec",
        lambda: spec_with(version=1).replace('"version": 1', f'"version": {"1" * 900_000}'),
    ],
    "manifest": [
        "forecast",
        "--bundled",
        "--history",
        lambda: json.dumps({"is": "history of ci-compile", "schema": HUGE}),
    ],
    "table": ["canary", "--read", lambda: f"ci-compiler `{HUGE}` on a machine that is `x`\n" * 2],
    "option": ["variants", "--branch", HUGE[:100_000]],
    "command": [HUGE[:100_000]],
    "unknown": [f"--{HUGE[:100_000]}"],
    "json": ["summary", ".", "--chosen", json.dumps({"main": [HUGE[:100_000]]})],
    "name": ["explain", HUGE[:100_000]],
    "root": ["--check", "--root", HUGE[:100_000]],
    "owner": ["init", "--owner", HUGE[:100_000]],
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WRONG)
def test_no_message_repeats_a_huge_value(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word if isinstance(word, str) else "it" for word in WRONG[case]]
    for make in filter(callable, WRONG[case]):
        (tmp_path / "it").write_text(make(), "utf-8")
    start = time.process_time()
    try:
        code = run(PROGRAM, words)
    except SystemExit as error:
        code = error.code
    assert time.process_time() - start < 20
    said = capsys.readouterr()
    assert code == 2
    assert said.err.startswith("error: ")
    assert max(map(len, said.err.splitlines())) < 2 * LONGEST + 200
    assert "\x1b" not in said.out + said.err


def test_a_long_message_keeps_both_ends_and_no_part_of_a_secret() -> None:
    token = f"gho_{'a' * 36}"
    for before in range(600, 700):
        (finding,) = wrong("a", Code.WRONG_VALUE, f"{'b' * before} {token} {'c' * 5_000}; did you mean main?").findings
        assert finding.message.startswith("bbb")
        assert finding.message.endswith("; did you mean main?")
        assert "gho_" not in str(finding)
        assert len(str(finding)) < LONGEST + 100


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--machine", "Architecture: x86_64\nModel name: x\x1b[31m\nFlags: fpu avx2 fma bmi2\nDriver Version: 580.1\n"),
    ],
)
def test_no_escape_sequence_of_a_file_reaches_the_terminal(
    option: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "it").write_text(text, "utf-8")
    assert run(PROGRAM, ["select", option, str(tmp_path / "it"), "--bundled"]) in {0, 1}
    said = "".join(capsys.readouterr())
    assert "\x1b" not in said
    assert said
