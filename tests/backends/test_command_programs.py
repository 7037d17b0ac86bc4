"""The declared commands in a job: what each is given, what is made of its end, and how files reach their place."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ci_compiler.backends.command_programs import CommandPrograms
from ci_compiler.backends.job import BuildOrder, Interpreter, JobContext, NeededFiles
from ci_compiler.publishing.plan import HeldFile, HeldVersion, Nights, StagedVariant, Upload
from ci_compiler.publishing.target import Target
from ci_compiler.secret import Secret
from tests.backends.programs import Build, outcome
from tests.checkers import require

DIGEST = hashlib.sha256(b"made\n").hexdigest()
FILE = "files/torch.txt"
ORDER = BuildOrder(name="torch", recipe="ci/build.sh", needs=(), log=Path("build.log"))
BUILD = Build(store_path=FILE, outputs=(FILE,), closure={FILE: f"sha256:{DIGEST}"})


class Commands(NamedTuple):
    """What the spec declares."""

    build: str = "ci/build.sh"
    files: tuple[str, ...] = ("dist/@name@.txt",)
    version: object = None
    setup: str = ""
    fetch: str = ""
    publish: object = ""
    secrets: tuple[str, ...] = ("KEY", "OTHER")
    published: str = ""


class Place(Target):
    """A place that notes what is asked of it."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.noted = answers, list[str]()

    def held(self, wanted: Sequence[Upload]) -> Mapping[str, HeldFile]:  # noqa: ARG002
        return self.answers.get("held", {})

    def put(self, file: Upload) -> None:
        self.noted.append(f"put {file.name} {file.digest} {file.variant} {file.version} {file.sbom}")

    def staged(self, version: str, variants: Collection[str]) -> Mapping[str, StagedVariant]:  # noqa: ARG002
        return self.answers.get("staged", {})

    def stage(self, wanted: Sequence[Upload]) -> None:  # noqa: ARG002
        self.noted.append("stage")

    def finish(self, version: str, variants: Collection[str]) -> None:
        self.noted.append(f"finish {version} {' '.join(variants)}")

    def unfinished(self, version: str, variant: str) -> bool:  # noqa: ARG002
        return bool(self.answers.get("unfinished"))

    def versions(self) -> Collection[HeldVersion]:
        return self.answers.get("versions", ())

    def needed(self, gone: Collection[HeldVersion]) -> Collection[HeldVersion]:
        return [one for one in gone if one in self.answers.get("needed", ())]

    def withdraw(self, versions: Collection[HeldVersion], because: str) -> None:
        self.noted.append(f"withdraw {' '.join(one.version for one in versions)} {because!r}")

    def remove_abandoned(self, before: datetime) -> int:  # noqa: ARG002
        if "abandoned" in self.answers:
            return int(self.answers["abandoned"])
        raise OSError("no right to list")


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobContext:
    """A job in a checkout whose script makes a file, and what it built before."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "ci/build.sh": "#!/bin/sh\nmkdir -p dist; echo made >dist/torch.txt\n",
        f"out/{FILE}": "made\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
        (tmp_path / name).chmod(0o755)
    secrets = {"KEY": Secret("hush"), "UNUSED": Secret("more")}
    job = JobContext(root=tmp_path, owner="my-org", cache=None, secrets=secrets, seconds=60, commands=Commands())
    values = {"name": "torch", "version": "1.0", "python": "", "package": "torch"}
    return job._replace(folder=tmp_path / "out", values=values, environment={"VARIANT_NAME": "torch"})


ENDED = "torch: its command `fetch` ended with status {}; the end of its output follows [closure-missing]"
FAILED = "torch: {} cannot be installed for the test (status {}); the end of the output follows [setup-failed]"


def with_(job: JobContext, **commands: Any) -> CommandPrograms:
    return CommandPrograms(job._replace(commands=Commands(**commands)))


def test_the_script_makes_the_declared_files(job: JobContext) -> None:
    result = with_(job).build(ORDER)
    assert result._replace(seconds=0.0) == (
        *("ci/build.sh", FILE, (FILE,), 5, {FILE: f"sha256:{DIGEST}"}, result.started, 0.0, True),
        *("", (), ()),
    )
    (job.root / "ci/build.sh").write_text("#!/bin/sh\necho no compiler; exit 4\n", "utf-8")
    refused = "torch: the build ended with status 4 after 0 s; the end of build.log: [build-failed]"
    assert outcome(lambda: with_(job).build(ORDER)) == refused
    assert outcome(lambda: CommandPrograms(job._replace(commands=None)).build(ORDER)) == (
        "packages: the package of this variant declares no `command` [command-missing]"
    )


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("", "torch: its package declares no command `fetch` [closure-missing]"),
        ("exit 7", ENDED.format(7)),
        (
            "false | true",
            "torch: its command `fetch` ended with status 1; the end of its output follows [closure-missing]",
        ),
        ('echo "$VARIANT_NAME" >"$VARIANT_FILES/a.txt"; test ! -v KEY', ("files/a.txt",)),
    ],
)
def test_published_files_are_fetched_by_the_declared_command(job: JobContext, line: str, result: object) -> None:
    found = outcome(lambda: with_(job, fetch=line).fetch_recipe("torch", "ci/build.sh"))
    assert getattr(found, "outputs", found) == result
    assert getattr(found, "built", False) is False


def test_publishing_gets_the_files_and_its_secrets(job: JobContext, capsys: pytest.CaptureFixture[str]) -> None:
    line = 'cat "$VARIANT_FILES/torch.txt"; echo "$KEY $VARIANT_NAME ${UNUSED-} ${OTHER-}"'
    with_(job, publish=line).publish(BUILD)
    assert capsys.readouterr().out == "made\n*** torch  \n"
    assert outcome(lambda: with_(job, publish='echo "error: $KEY"; exit 3').publish(BUILD)) == (
        "torch: the publishing command ended with 3 after 0 s: *** [publish-failed]"
    )


@pytest.mark.parametrize(
    ("line", "shown"), [("", ""), ("test $KEY = hush", "`test $KEY = hush` succeeds"), ("false", "")]
)
def test_the_declared_command_says_what_is_published(job: JobContext, line: str, shown: str) -> None:
    programs = with_(job, published=line)
    assert programs.published(BUILD, []) == shown
    assert programs.is_published("torch", "1.0", "", []) == bool(shown)
    assert programs.upload(BUILD) == ""


def test_without_recipes_and_a_cache_there_is_nothing_to_evaluate_or_to_record(job: JobContext) -> None:
    programs = with_(job)
    programs.record("text")
    programs.attest(BUILD, ["cpu-test"])
    programs.prove(BUILD, "")
    assert (programs.evaluate("x"), programs.recorded(["text"]), programs.fetch(BUILD)) == ({}, (), False)
    assert (programs.attested(BUILD, []), programs.attested(BUILD, [], "x")) == (False, True)
    assert programs.closure(BUILD) == (str(job.folder / FILE),)


def placed(job: JobContext, place: Place, **more: Any) -> CommandPrograms:
    return CommandPrograms(job._replace(target=lambda: place, **more))


PUT = f"put torch.txt {DIGEST} torch 2.8.0 None"
HELD = {"torch.txt": HeldFile(digest=DIGEST, shown=True)}
NIGHTS = tuple(HeldVersion(version=f"1.0.dev202601{day}", variant="torch") for day in ("01", "02"))


@pytest.mark.parametrize(
    ("answers", "keep", "noted", "printed"),
    [
        ({}, None, [], ""),
        (
            {"versions": NIGHTS},
            Nights(pattern="{version}.dev{date}", days=1),
            [f"withdraw {NIGHTS[0].version} ''"],
            "1 night removed\n",
        ),
        (
            {"versions": NIGHTS, "needed": NIGHTS},
            Nights(pattern="{version}.dev{date}", days=1),
            [],
            "1 night kept longer, because what stays there needs it\n",
        ),
        (
            {"abandoned": 2},
            Nights(pattern="", uploads=9),
            [],
            "2 old uploads removed, whose release was never completed\n",
        ),
        ({"abandoned": 0}, Nights(pattern="", uploads=9), [], ""),
        (
            {},
            Nights(pattern="", uploads=9),
            [],
            "uploads of releases that were never completed stay: no right to list\n",
        ),
    ],
)
def test_files_are_published_at_their_place_where_old_nights_end(
    job: JobContext,
    answers: dict[str, Any],
    keep: Nights | None,
    noted: list[str],
    printed: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = Place(**answers)
    programs = placed(job, place, keep=keep)
    assert programs.published(BUILD, []) == ""
    programs.publish(BUILD)
    assert place.noted == [PUT, "stage", "finish 2.8.0 torch", *noted]
    assert capsys.readouterr().out == f"torch.txt: uploaded\n{printed}"


def test_a_version_is_published_once_all_users_see_it(job: JobContext) -> None:
    for versions, unfinished, is_there in (((), False, False), (NIGHTS, False, True), (NIGHTS, True, False)):
        programs = placed(job, Place(versions=versions, unfinished=unfinished))
        assert programs.is_published("torch", NIGHTS[0].version, "", []) is is_there


EARLIER = (
    f"torch: the release 2.8.0 was published from {'d' * 40} (other), and this was built from {'c' * 40}; set a new "
    "version [release-other-commit]"
)
OTHER = StagedVariant(commit="d" * 40, shown=True)


@pytest.mark.parametrize(
    ("answers", "waits", "noted"),
    [
        ({}, "other and torch did not pass and get there yet", [PUT, "stage"]),
        ({"staged": {name: StagedVariant("c" * 40, shown=False) for name in ("torch", "other")}}, "", [PUT, "stage"]),
        (
            {"staged": {"other": OTHER}},
            EARLIER,
            [],
        ),
        ({"staged": {"torch": OTHER, "other": OTHER}, "held": HELD}, "", []),
    ],
)
def test_a_whole_release_waits_for_all_of_its_variants(
    job: JobContext, answers: dict[str, Any], waits: str, noted: list[str]
) -> None:
    subprocess.run([require("git"), "init", "--quiet"], cwd=job.root, check=True)
    place = Place(**answers)
    programs = placed(job, place, whole=lambda: ["torch", "other"])
    assert outcome(lambda: programs.upload(BUILD)) == waits
    assert place.noted == noted
    assert placed(job, place).upload(BUILD) == ""
    assert placed(job, Place(held=HELD)).published(BUILD, []) == "torch.txt is there"


PYTHON = '#!/bin/sh\n[ "$1 $2" = "-m venv" ] || exit 1\nmkdir -p "$3/bin"; echo \'#!/bin/sh\' >"$3/bin/python"\n'


@pytest.mark.parametrize(
    ("setup", "needed", "result"),
    [
        ("", "", "has no wheel, and the package declares no `setup` that installs its files"),
        ('cp "$VARIANT_FILES/torch.txt" "$VIRTUAL_ENV/"', "", ""),
        ('test -e "$VIRTUAL_ENV/first"', 'touch "$VIRTUAL_ENV/first"; test -e "$VARIANT_FILES/base"', ""),
        (
            "exit 3",
            "",
            FAILED.format("its files", 3),
        ),
        (
            "true",
            'test "$VARIANT_PACKAGE" = other',
            FAILED.format("the files of base, which it needs,", 1),
        ),
    ],
)
def test_a_test_gets_an_environment_with_the_files(
    job: JobContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setup: str, needed: str, result: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text(PYTHON, "utf-8")
    (tmp_path / "bin/python3").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    (tmp_path / "needs/base").mkdir(parents=True)
    (tmp_path / "needs/base/base").touch()
    base = NeededFiles("base", tmp_path / "needs/base", needed, {"package": "base"})
    programs = with_(job._replace(needed=(base,)), setup=setup)
    found = outcome(lambda: programs.interpreter(BUILD, tmp_path / "scratch"))
    home = tmp_path / "scratch/environment"
    if not setup:
        assert found == Interpreter(program="", home=str(job.folder / "files"), lacks=result)
    else:
        assert found == (result or Interpreter(program=str(home / "bin/python"), home=str(home)))
