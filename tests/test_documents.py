"""The documents match the code: commands parse, links resolve, specs compile, counts are right, sessions run.

The info string of a fenced block says what the block is. `sh session` is run, page by page, in an empty folder; a
`text` block directly after it is its output. The words after `session` say what it needs (`NEEDS`). In the output, `…`
stands for any text, and alone on a line for any lines. `sh` is not run, and `documents/not_run.toml` says why.
`diff session` edits the spec in that folder, and `LANGUAGE file PATH` writes a file there. `yaml spec` is a complete
spec, `yaml part` is merged into the bundled spec, and `yaml other` is not a spec.

`python -m tests.test_documents` creates the pictures.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.canary.assumptions import assumptions
from ci_compiler.canary.table import written_table
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.program import SHELLS, Program
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.cli.where import SPEC
from ci_compiler.clock import Clock
from ci_compiler.errors import InputError
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.spec.build import BUNDLED, STARTERS, bundled_spec, load_spec, parse_spec
from ci_compiler.sync.compiled import compile_files
from tests.canary.recorded import runs
from tests.checkers.tools import require
from tests.github.server import serving
from tests.github.state import REPOSITORY, TOKEN, GitHub
from tests.loops import each
from tests.rows import for_each_row
from tests.runner.machines import known, recorded

ROOT = Path(__file__).parents[1]
DOCS = ROOT / ".github/docs"
OWN = ("README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md", ".github/docs/reference/licences.md")
PAGES = {
    path.relative_to(ROOT).as_posix(): path for path in (*(ROOT / name for name in OWN), *sorted(DOCS.glob("*.md")))
}
ROUTES = ".github/docs/README.md"
IMAGES = DOCS / "images"
PROGRAMS: Mapping[str, Program] = {"ci-compile": COMPILE, "ci-runner": RUNNER}
KINDS = {
    *("sh", "sh session", "text", "python", "python nix", "mermaid", "nix"),
    *("diff session", "file", "yaml spec", "yaml part", "yaml other"),
}
FILE = re.compile(r"^[\w+]+ file (\S+)$")
"""The info string of a block that is a file of the session's folder."""
STANDINS = Path(__file__).parent / "documents/programs"
"""Programs that check how the pages call them, in place of those that need another machine."""
NOT_RUN: Mapping[str, Mapping[str, str]] = tomllib.loads(STANDINS.with_name("not_run.toml").read_text("utf-8"))
"""Why a block is not run: by page and by the block's first line."""

every_page = for_each_row(PAGES)


@dataclass(frozen=True)
class Block:
    """A fenced block: its info string (`sh session`), its text, and the line of its fence."""

    kind: str
    text: str
    line: int


@cache
def read(page: str) -> tuple[tuple[Block, ...], str]:
    """The fenced blocks of a page, and its prose, which is everything else."""
    blocks: list[Block] = []
    prose: list[str] = []
    kind, start = "", 0
    inside: list[str] | None = None
    for number, line in enumerate(PAGES[page].read_text("utf-8").splitlines(), 1):
        if not line.startswith("```"):
            (prose if inside is None else inside).append(line)
        elif inside is None:
            kind, start, inside = line[3:], number, []
        else:
            blocks.append(Block(kind, "\n".join(inside), start))
            inside = None
    assert inside is None, f"{page}:{start}: a fence is not closed"
    return tuple(blocks), "\n".join(prose)


def blocks_of(page: str, *kinds: str) -> list[Block]:
    return [block for block in read(page)[0] if block.kind in kinds]


def specs_of(page: str) -> list[Block]:
    return blocks_of(page, "yaml spec", f"yaml file {SPEC.as_posix()}")


@cache
def bundled() -> Plan:
    return plan(bundled_spec())


@every_page
def test_every_block_says_what_it_is(page: str) -> None:
    kinds = {re.sub(r"^(sh session)( \w+)+$", r"\1", FILE.sub("file", block.kind)) for block in read(page)[0]}
    assert kinds - KINDS == set()
    words = {word for block in read(page)[0] if "session" in block.kind for word in block.kind.split()[2:]}
    assert words - NEEDS.keys() == set()


@every_page
def test_a_block_is_run_or_it_is_said_why_not(page: str) -> None:
    assert [block.text.split("\n")[0] for block in blocks_of(page, "sh")] == list(NOT_RUN.get(page, {}))
    assert NOT_RUN.keys() <= PAGES.keys()


# Commands.


def lines_of(block: Block) -> list[str]:
    return [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]


def calls(line: str) -> Iterator[list[str]]:
    """The calls of ci-compile and ci-runner in a line of shell: `A=$(b) ci-compile x | c > d` has one."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    call: list[str] = []
    for word in [*words, ";"]:
        if set(word) <= set("();<>|&"):
            if call and Path(call[0]).name in PROGRAMS:
                yield [Path(call[0]).name, *call[1:]]
            call = []
        elif call or not re.match(r"\w+=", word):
            call.append(word)


def refusal(call: list[str]) -> str:
    """The command's error message for a call; '' if it accepts the call."""
    program, words = PROGRAMS[call[0]], call[1:]
    if words[:1] == ["--print-completion"]:
        return "" if words[1:] in [[shell] for shell in SHELLS] else f"{call[0]} knows no shell {words[1:]}"
    command = words.pop(0) if words and words[0] in program.commands else program.default
    if not command:
        return f"{' '.join(call)} names no command of {call[0]}"
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            program.parser_of(command, f"{call[0]} {command}").parse_args(words)
    except SystemExit:
        return said.getvalue()
    return ""


SYSTEMS = (
    "`ci-compile` is for Linux and macOS, and jobs of `backend: command` are for Windows as well; nothing has run on "
    "macOS and Windows yet."
)


@pytest.mark.parametrize("page", ["README.md", ".github/docs/install.md"])
def test_the_readme_and_the_installation_say_the_same_of_systems(page: str) -> None:
    assert SYSTEMS in " ".join(PAGES[page].read_text("utf-8").split())


NOT_ON_MACOS = {
    r"\b(?:mapfile|readarray|coproc)\b": "mapfile -t lines",
    r"\b(?:declare|local|typeset) -\w*[An]": "declare -A table",
    r"\$\{\w+(?:\[[^]]*\])?(?:,|\^|@)": "${name,,}",
    r"&>>|\|&": "make |& tee log",
    r"\bsed (?:-\w+ )*-\w*(?:i(?!\.)|r\b)": "sed -i s/a/b/ file",
    r"\bsed (?:-\S+ )*'?\d+[aic](?!\\)\S": "sed -i.old 1ix file",
    r"\breadlink -\w*f": "readlink -f link",
    r"\b(?:sha\d+sum|md5sum|nproc|timeout|tac|setsid|shuf|numfmt|getent|lscpu|ip|ss|ldd) ": "sha256sum --check sums",
    r"\b(?:apt(?:-get)?|systemctl|journalctl|sysctl -w|modprobe) ": "systemctl start unit",
    r"\bdate (?:-d|-I\w|--\w)": "date -d yesterday",
    r"\bgrep (?:-\w+ )*-\w*P": "grep -oP x",
    r"\bxargs (?:-\w+ )*(?:-\w*[rd]\b|--)": "xargs -r rm",
    r"\b(?:cp|mv|ln|ls|du|df|tar|mkdir|rm|touch|sort|head|tail|chmod|wc|stat|mktemp|base64) (?:-\w+ )*--\w": (
        "cp --reflink a b"
    ),
    r"\b(?:cp|mv|ln) (?:-\w+ )*-\w*[Tt]\b": "ln -sfT a b",
    r"\bmktemp (?:-d )?-\w*p": "mktemp -d -p here",
    r"\bstat (?:-\w+ )*-\w*c": "stat -c %s file",
    r"\bbase64 -w": "base64 -w0",
    r"\b(?:head|tail) -n ?-\d": "head -n -1",
    r"\bfind [^|;]*-(?:printf|executable|regextype)": "find . -printf %f",
    r"/proc/|/sys/|/dev/shm": "cat /proc/cpuinfo",
}
"""What macOS lacks, with its bash 3.2 and the programs of BSD, and a command that has it."""


def not_on_macos(script: str) -> list[str]:
    return [
        found[0] for pattern in NOT_ON_MACOS for found in re.finditer(pattern, re.sub(r"(?m)(^|\s)#.*$", "", script))
    ]


@for_each_row(NOT_ON_MACOS.values())
def test_a_command_that_macos_lacks_is_found(planted: str) -> None:
    assert not_on_macos(f"git add .\n{planted}\n")


@every_page
def test_a_users_commands_run_on_macos(page: str) -> None:
    """As far as the table knows: nobody has run them there."""
    found = {block.text: not_on_macos(block.text) for block in read(page)[0] if block.kind.split()[:1] == ["sh"]}
    assert {text: words for text, words in found.items() if words} == {}


def test_a_users_scripts_run_on_macos() -> None:
    folders = [ROOT / "ci_compiler" / name for name in ("spec/starters", "documents/overlay")]
    paths = [path for folder in folders for path in folder.rglob("*") if path.suffix in {".sh", ".bash", ".zsh"}]
    assert len(paths) >= 2
    assert {path.name: found for path in paths if (found := not_on_macos(path.read_text("utf-8")))} == {}


@every_page
def test_every_command_is_accepted(page: str) -> None:
    blocks = [block for block in read(page)[0] if block.kind.startswith("sh")]
    shown = [(block.line, call) for block in blocks for line in lines_of(block) for call in calls(line)]
    assert [f"{page}:{line}: {said}" for line, call in shown if (said := refusal(call))] == []


@every_page
def test_every_image_can_be_built(page: str) -> None:
    for line in (line for block in blocks_of(page, "sh") for line in lines_of(block)):
        if line.startswith("runner-images/build.py "):
            command = [sys.executable, *shlex.split(line), "--print"]
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_every_command_in_a_sentence_exists_with_its_options() -> None:
    spans = {page: re.findall(r"(?<!`)`(ci-(?:compile|runner)(?![\w-])[^`]*)`", read(page)[1]) for page in PAGES}
    for page, span in each((name, one) for name, found in spans.items() for one in found):
        name, *words = span.split()
        program = PROGRAMS[name]
        command = words[0] if words and not words[0].startswith(("-", "…")) else program.default
        assert not words or command in program.commands or command == program.default, f"{page}: {span}"
        options = set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", span))
        known = program.parser_of(command, name).format_help() if options else ""
        assert {one for one in options if not re.search(rf"(?<![\w-]){one}(?![\w-])", known)} == set(), (
            f"{page}: {span}"
        )


# Links and names.


def slug(heading: str) -> str:
    """The anchor of a heading on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def missing(target: str, folder: Path, page: Path) -> bool:
    """Whether `target` (`path#anchor`, from a folder; '' is the page itself) leads to nothing in the repository."""
    path, _, anchor = target.partition("#")
    file = (folder / path).resolve() if path else page
    if not file.is_relative_to(ROOT) or not file.exists():
        return True
    headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE) if anchor else []
    return bool(anchor) and anchor not in map(slug, headings)


LINKED = {*PAGES.values(), *DOCS.rglob("*.md"), *(ROOT / ".github").glob("*.md"), ROOT / "runner-images/README.md"}
LINKED -= {ROOT / ".github/BUILD_MATRIX.md"}  # links to pages of GitHub; tests/documents/test_build_matrix.py
"""The pages whose links are relative."""


@for_each_row(sorted(LINKED), str)
def test_every_link_leads_to_a_file_in_the_repository(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [one for one in re.findall(r"\]\(([^)\s]+)\)", prose) if not one.startswith("https://")]
    assert [one for one in targets if missing(one, page.parent, page)] == []


NAMES_A_PAGE = re.compile(
    r"(?:https://github\.com/flox-cuda/ci-compiler/blob/main/|(?<![\w/.-]))"
    r"((?:\.github|runner-images)/[\w./-]*\.md(?:#[\w-]+)?)"
)
"""The address of a page on GitHub, or its path in this repository."""


def test_every_page_that_another_file_names_exists() -> None:
    """What the commands print, the compiled files, the forms on GitHub and the package's metadata lead readers to."""
    folders = ("ci_compiler", ".github", ".ci", "runner-images", "tests/documents")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file() and path not in LINKED]
    named: dict[str, str] = {}
    for path in [*files, ROOT / "pyproject.toml"]:
        with contextlib.suppress(UnicodeDecodeError):  # a picture
            named |= dict.fromkeys(NAMES_A_PAGE.findall(path.read_text("utf-8")), path.as_posix())
    assert ".github/docs/changelog.md" in named
    assert {one: path for one, path in named.items() if missing(one, ROOT, ROOT)} == {}


def words(page: str) -> int:
    return len(re.sub(r"\]\([^)]*\)", "]", read(page)[1]).split())


LONGER = {
    ".github/docs/package-recipes.md": 1350,
    ".github/docs/publish.md": 1450,
    ".github/docs/tests.md": 1300,
}
"""Guides that may have more words: each answers what three pages did, and a part of it does without the others."""


def test_the_guides_are_few_and_short() -> None:
    """Words without code. A reader of the changelog reads the newest version only."""
    guides = {path.relative_to(ROOT).as_posix(): path for path in DOCS.glob("*.md") if path.name != "changelog.md"}
    assert len(guides) <= 24
    assert sum(len(path.read_text("utf-8").split()) for path in guides.values()) <= 28_000  # with their code
    assert {page: words(page) for page in guides if words(page) > LONGER.get(page, 1200)} == {}


def test_the_readme_fits_three_screens() -> None:
    assert len(PAGES["README.md"].read_text("utf-8").splitlines()) <= 150


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", read(ROUTES)[1]))
    assert listed == {path.name for path in DOCS.glob("*.md") if path.name != "README.md"}


def names_of(decided: Plan) -> set[str]:
    return {variant.name for cell in decided.judged.cells for variant in cell.variants}


@every_page
def test_every_variant_that_is_named_is_built(page: str) -> None:
    first = plan(load_spec(STARTERS / "torch/.github/ci-matrix.yaml", shown="first.yaml"))
    known = names_of(bundled()) | names_of(first)
    known = known.union(*(names_of(compiled(block.text)) for block in specs_of(page)))
    texts = [read(page)[1], *(block.text for block in blocks_of(page, "sh", "python", "python nix"))]
    named = re.findall(r"\b[a-z]+-python3\d+-[a-z0-9_-]+(?![\w*{?\[-])", "\n".join(texts))
    assert [name for name in named if name not in known] == []


# Specs.


def compiled(text: str) -> Plan:
    decided = plan(parse_spec(text.encode(), shown="spec"))
    compile_files(decided)
    return decided


def merged(base: Any, part: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(part, dict):
        return part
    return base | {key: merged(base[key], value) if key in base else value for key, value in part.items()}


def test_every_whole_spec_compiles() -> None:
    for page, block in each((name, found) for name in PAGES for found in specs_of(name)):
        assert compiled(block.text).warnings == (), f"{page}:{block.line}"


@pytest.mark.slow
@every_page
def test_every_part_of_a_spec_fits_into_the_bundled_one(page: str) -> None:
    base = yaml.safe_load(BUNDLED.read_bytes())
    for branch in base["branches"].values():
        branch["nixpkgs-hash"] = f"sha256-{'A' * 43}="  # a `cache` wants one
    for block in blocks_of(page, "yaml part"):
        try:
            compiled(json.dumps(merged(base, yaml.safe_load(block.text))))  # JSON is YAML
        except InputError as error:
            pytest.fail(f"{page}:{block.line}: {error}")


def test_every_piece_of_nix_parses() -> None:
    require("nix-instantiate")
    pieces = [block.text for page in PAGES for block in blocks_of(page, "nix")]
    together = "[\n" + "\n".join(f"({piece}\n)" for piece in pieces) + "]"
    done = subprocess.run(
        ["nix-instantiate", "--parse", "-E", together], capture_output=True, encoding="utf-8", check=False
    )
    assert pieces
    assert done.returncode == 0, done.stderr


# Numbers.


def counts(decided: Plan) -> set[str]:
    """The correct counts of a plan, such as `459 variants`: in total, per branch, and per package of a branch."""
    cells, shards = decided.judged.cells, decided.shards
    found = {f"{len(shards)} shards", f"{len(shards)} workflows", f"{len(decided.spec.branches)} branches"}
    for branch in (None, *decided.spec.branches):
        own = [cell for cell in cells if branch in {None, cell.branch}]
        variants = sum(len(cell.variants) for cell in own)
        found |= {
            f"{len(own)} cells",
            f"{len(own)} variants per package",
            f"{variants} variants",
            f"{variants} recipes",
        }
    return found


@every_page
def test_every_count_of_the_matrix_is_right(page: str) -> None:
    known = counts(bundled())
    said = re.findall(
        r"(?<![\w,.])(\d[\d,]*) (variants per package|variants|recipes|cells|shards|branches)\b", read(page)[1]
    )
    assert [f"{number} {what}" for number, what in said if f"{number.replace(',', '')} {what}" not in known] == []


def test_the_table_of_branches_is_counted() -> None:
    decided = bundled()
    rows = []
    for name, branch in decided.spec.branches.items():
        own = [cell for cell in decided.judged.cells if cell.branch == name]
        shards = sum(shard.branch == name for shard in decided.shards)
        total = sum(len(cell.variants) for cell in own)
        rows.append([f"`{name}`", *branch.toolkits, *branch.versions.values(), str(len(own)), str(total), str(shards)])
    sums = [sum(int(row[at]) for row in rows) for at in (-3, -2, -1)]
    rows.append(["all", "", "", "", "", *map(str, sums)])
    lines = read("README.md")[1].splitlines()
    header = next(index for index, line in enumerate(lines) if line.startswith("| branch | CUDA |"))
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[header + 2 : header + 6]]
    assert shown == rows


# What is printed.


def shows(expected: str, printed: str) -> bool:
    """Whether `printed` is `expected`, where `…` stands for any text, and alone on a line for any lines."""
    pattern = "\n".join("LINES" if line.strip() == "…" else re.escape(line.rstrip()) for line in expected.splitlines())
    pattern = pattern.replace("\nLINES\n", r"(?:\n.*)*?\n").replace("LINES\n", r"(?:.*\n)*?")
    pattern = pattern.replace("\nLINES", r"(?:\n.*)*").replace("…", ".*")
    return re.fullmatch(pattern, "\n".join(line.rstrip() for line in printed.rstrip().splitlines())) is not None


@pytest.mark.parametrize("printed", ["a\nb", "a\nx\ny\nb", "a\nx", "a\nb\n", "ax\nb"])
def test_an_ellipsis_stands_for_any_text(printed: str) -> None:
    assert [shows(expected, printed) for expected in ("a\n…\nb", "…\nb", "a\n…", "a…\nb")] == {
        "a\nb": [True, True, True, True],
        "a\nx\ny\nb": [True, True, True, False],
        "a\nx": [False, False, True, False],
        "a\nb\n": [True, True, True, True],
        "ax\nb": [False, True, False, True],
    }[printed]


class Terminal(io.StringIO):
    """A terminal without colours, whose tables have headers, in front of the text that is `printed`."""

    def __init__(self, printed: io.StringIO) -> None:
        super().__init__()
        self.printed = printed

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return self.printed.write(text)


@contextlib.contextmanager
def printing() -> Iterator[io.StringIO]:
    """Collects what is printed; standard output is a terminal, and standard error is a pipe."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_COLOR", "1")
        patch.setenv("COLUMNS", "400")  # nothing wraps
        with contextlib.redirect_stdout(Terminal(printed)), contextlib.redirect_stderr(printed):
            yield printed


def _first_attempt(facts: dict[str, str]) -> dict[str, str]:
    """The facts of a run that was not run again."""
    return facts if facts.get("failed.kind") == "first" else {k: v for k, v in facts.items() if k != "failed.kind"}


class Session:
    """A page's session in a folder of its own; ci-compile and ci-runner run in this process, the rest in a shell."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.stack = stack

    def step(self, block: Block) -> str:
        """Runs a block and returns what it printed."""
        if block.kind == "diff session":
            self.edit(block)
            return ""
        if named := FILE.match(block.kind):
            self.write(Path(named[1]), block.text)
            return ""
        for word in block.kind.split():
            if word in NEEDS:
                NEEDS[word](self)
        with printing() as printed:
            if block.kind.startswith("python"):
                exec(compile(block.text, f"line {block.line}", "exec"), {})  # noqa: S102  (the page's own example)
            else:
                for line in lines_of(block):
                    self.line(line)
        return printed.getvalue()

    @staticmethod
    def line(line: str) -> None:
        ours = list(calls(line))
        if ours and not re.search(r"[<>|&]|\$\(", line):
            program, *words = ours[0]
            wanted = int(line.rpartition("# exits with ")[2]) if "# exits with " in line else 0
            assert run(PROGRAMS[program], words) == wanted, line
        elif line.startswith("cd "):
            os.chdir(line.removeprefix("cd "))
        else:
            done = subprocess.run(["bash", "-c", line], capture_output=True, encoding="utf-8", check=False)
            print(done.stdout + done.stderr, end="")
            assert done.returncode == 0, line

    @staticmethod
    def write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", "utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)

    @staticmethod
    def edit(block: Block) -> None:
        """Applies a diff without line numbers to the spec."""
        old, new = (
            "".join(f"{line[1:]}\n" for line in block.text.splitlines() if line[0] in signs) for signs in (" -", " +")
        )
        text = SPEC.read_text("utf-8")
        assert text.count(old) == 1, f"line {block.line}: the spec contains what it changes {text.count(old)} times"
        SPEC.write_text(text.replace(old, new), "utf-8")

    def program(self, name: str) -> None:
        """Puts the stand-in for a program on PATH."""
        Path("../bin", name).symlink_to(STANDINS / name)

    def compiled(self) -> None:
        """The folder has the bundled spec and what is compiled from it."""
        SPEC.parent.mkdir()
        shutil.copy(BUNDLED, SPEC)
        self.line("ci-compile")

    def opened(self) -> None:
        """The folder is a repository with the spec of the page about open matrices, and a build script."""
        SPEC.parent.mkdir()
        SPEC.write_text(blocks_of(".github/docs/open-matrices.md", "yaml spec")[0].text, "utf-8")
        Path("ci").mkdir()
        self.line("git init --quiet --initial-branch main . && echo true > ci/build.sh && chmod +x ci/build.sh")

    def branches(self) -> None:
        """The folder is a repository, which `origin` has with all branches of the bundled spec."""
        names = " ".join(name for name in bundled().spec.branches if name != "main")
        script = (
            "git init --quiet --initial-branch main . && git init --quiet --bare ../origin.git",
            'git add . && git commit --quiet --message Compiled && git remote add origin "$(realpath ../origin.git)"',
            f"for name in {names}; do git branch $name; done; git push --quiet --all origin",
        )
        self.line("; ".join(script))

    def github(self) -> None:
        """Starts a stand-in for GitHub with the workflows of the folder and an idle runner for each pool.

        What is dispatched succeeds at once.
        """
        self.served = self.stack.enter_context(serving(GitHub()))
        self.served.push({path.as_posix(): path.read_text("utf-8") for path in Path(".github/workflows").glob("*.yml")})
        self.served.branches |= set(bundled().spec.branches)
        self.served.on_dispatch = lambda made: made.update(status="completed", conclusion="success")
        for pool in bundled().spec.pools:
            self.served.add_runner(pool.name, pool.runs_on.labels)
        os.environ |= {"GITHUB_API_URL": self.served.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}

    def failure(self) -> None:
        """On GitHub, a build has failed."""
        jobs = [("3.13 avx2 / pytorch / build", "completed", "failure")]
        self.served.add_run(".github/workflows/build-main-sm90.yml", jobs, conclusion="failure")

    def h200(self) -> None:
        """`ci-runner` sees a virtual machine with an NVIDIA H200."""
        found = recorded("h200")
        said = found.gpus["cuda"]
        smi = said.smi._replace(out=said.smi.out.replace("570.86.15", "580.159.04"))
        disk = replace(found.folders[0], size=270_500_000_000, free=68_600_000_000, device="/dev/vda")
        machine = known(
            "h200",
            affinity=16,
            os_release='PRETTY_NAME="Ubuntu 24.04.3 LTS"',
            kernel="6.8.0",
            cpuinfo=found.cpuinfo.replace("Platinum 8480+", "Processor (KVM guest)"),
            meminfo="MemTotal: 131934208 kB",
            folders=(disk, replace(disk, role="build", path="/tmp")),  # noqa: S108  (what the page shows)
            gpus={"cuda": said._replace(smi=smi)},
        )
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        for command in ("detect", "labels"):
            patch.setattr(f"ci_compiler.cli.runner.{command}.this_machine", lambda *_, **__: machine)

    def hash(self) -> None:
        """Every archive of nixpkgs has the same hash, and none is downloaded."""
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("ci_compiler.cli.compile.hash.fetched_hash", lambda _: f"sha256-{'A' * 43}=")

    def tables(self) -> None:
        """`tables.md` has the tables of runs in which one assumption is broken, and of which none ran again."""
        broken = dict.fromkeys(assumptions()["queue-max"].expected, "other")
        Path("tables.md").write_text(
            "".join(written_table(_first_attempt(facts) | broken) for facts in runs()), "utf-8"
        )

    def manifests(self) -> None:
        """`manifests` has the record of a build."""
        Path("manifests").mkdir()
        record = {"name": "pytorch-python313-cpu-avx2", "branch": "main", "seconds": 1200}
        Path("manifests/manifest.json").write_text(json.dumps(record), "utf-8")


NEEDS: Mapping[str, Callable[[Session], object]] = {
    "nix": lambda _: require("nix-instantiate"),
    "jq": lambda _: require("jq"),
    "compiled": Session.compiled,
    "opened": Session.opened,
    "branches": Session.branches,
    "github": Session.github,
    "failure": Session.failure,
    "hash": Session.hash,
    "h200": Session.h200,
    "tables": Session.tables,
    "manifests": Session.manifests,
    **{path.name: lambda session, name=path.name: session.program(name) for path in STANDINS.iterdir()},
}
"""What a session needs, and how it gets it."""


def steps_of(page: str) -> Iterator[tuple[Block, str]]:
    """The blocks that a page runs, each with the output that the page shows for it."""
    for block, following in pairwise([*read(page)[0], Block("", "", 0)]):
        if block.kind.startswith("python") or "session" in block.kind or FILE.match(block.kind):
            yield block, following.text if following.kind == "text" else ""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """In an empty folder."""
    for name in ("bin", "work"):
        (tmp_path / name).mkdir()
    for name, program in PROGRAMS.items():  # for lines with a pipe or a redirection
        script = f"import {program.package} as p; raise SystemExit(p.main())"
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{script}" "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(Clock, "sleep", lambda *_: None)  # GitHub asks for pauses between requests
    monkeypatch.setenv("PATH", os.pathsep.join((str(tmp_path / "bin"), os.environ.get("PATH", os.defpath))))
    for name in [name for name in os.environ if name.startswith(("GIT", "GH_"))]:
        monkeypatch.delenv(name)
    nothing = dict.fromkeys(("GITHUB_API_URL", "GITHUB_TOKEN", "GITHUB_REPOSITORY"), "")
    git = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CEILING_DIRECTORIES": str(tmp_path)}
    me = {f"GIT_{role}_{key}": "me@example.org" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    for name, value in (nothing | git | me).items():
        monkeypatch.setenv(name, value)
    with contextlib.ExitStack() as stack:
        yield Session(stack)


def follow(session: Session, page: str, steps: Iterable[tuple[Block, str]]) -> None:
    """Runs the blocks of a page, and compares what each prints with what the page shows."""
    for block, expected in steps:
        printed = session.step(block)
        if expected:
            assert shows(expected, printed), f"{page}:{block.line} prints\n{printed}\nand not\n{expected}"


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page != ROUTES and any(steps_of(page))])
def test_what_a_page_runs_prints_what_it_says(page: str, session: Session) -> None:
    follow(session, page, steps_of(page))


def routes() -> dict[str, tuple[int, int]]:
    """The routes in the list of guides, each with its first and its last line."""
    lines = PAGES[ROUTES].read_text("utf-8").splitlines()
    starts = [number for number, line in enumerate(lines, 1) if line.startswith("## ")]
    return {lines[start - 1][3:]: (start, end) for start, end in pairwise(starts)}


def test_the_readme_names_the_routes() -> None:
    named = re.findall(r"\]\(\.github/docs/README\.md#([\w-]+)\)", read("README.md")[1])
    assert named == [slug(route) for route in routes()]


@pytest.mark.parametrize("route", routes())
def test_a_route_leads_from_an_empty_folder_to_its_end(route: str, session: Session) -> None:
    """Its commands, line by line; those of its pages are run page by page, from an empty folder, too."""
    start, end = routes()[route]
    steps = [step for step in steps_of(ROUTES) if start < step[0].line < end]
    assert steps
    assert steps[-1][1], "a route ends with what its last command prints"
    follow(session, ROUTES, steps)


def test_the_first_command_prints_what_the_readme_says(tmp_path: Path) -> None:
    [first, second] = blocks_of("README.md", "sh")[:2]
    assert first.text.endswith(" && .venv/bin/ci-compile")
    assert second.text.endswith(" && .venv/bin/python -m pytest")
    printed = next(block for block in blocks_of("README.md", "text") if block.line > first.line)
    (tmp_path / ".github").mkdir()
    shutil.copy(ROOT / SPEC, tmp_path / SPEC)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with printing() as captured:
        assert run(COMPILE, ["--root", str(tmp_path)]) == 0
    said = captured.getvalue().replace(f"{tmp_path}/", "")
    assert shows(printed.text, said), said


# Pictures.

ONLY_THE_MATRIX = "document.querySelectorAll('header, .finder, #filters, #count, footer, h2').forEach(e => e.remove())"


def facts() -> str:
    """A hash of what the picture shows; if it changes, the picture is out of date."""
    printed = io.StringIO()
    decided = bundled()
    for cell, route in zip(decided.judged.cells, decided.routes, strict=True):
        print(cell.branch, cell.suffix, *route.pools, file=printed)
    for one in decided.judged.left_out:
        print(one.branch, one.target, one.isa, file=printed)
    return sha256(printed.getvalue().encode()).hexdigest()


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file (PNG specification, 5.3)."""
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def source() -> bytes:
    """The chunk of the picture that holds the hash of what it shows."""
    return chunk(b"tEXt", f"Source\0{facts()}".encode())


PICTURE = IMAGES / "matrix.png"


def test_the_picture_is_up_to_date() -> None:
    data = PICTURE.read_bytes()
    assert len(data) < 200_000
    assert source() in data, "`python -m tests.test_documents` creates it"


def take_picture() -> None:
    """Takes the picture of the matrix of the bundled stack on the finder page, with a headless browser."""
    from tests.documents.browser import browser

    with tempfile.TemporaryDirectory() as folder, browser() as page:
        run(COMPILE, ["site", f"{folder}/site", "--root", folder])
        page.open(f"file://{folder}/site/index.html", width=1280, height=100)
        page.run(ONLY_THE_MATRIX)
        page.screenshot(PICTURE)
    data = PICTURE.read_bytes()
    end = data.rindex(chunk(b"IEND", b""))
    PICTURE.write_bytes(data[:end] + source() + data[end:])


if __name__ == "__main__":
    take_picture()
