"""The questions of `ci-compile init`: at a terminal, by options, and what is written when one is not answered."""

from __future__ import annotations

import os
import pty
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.cli.questions import QUESTIONS
from ci_compiler.plan.pins import named_commits
from ci_compiler.plan.pipeline import plan
from ci_compiler.runner.deployment.kinds import deployment
from ci_compiler.spec.build import load_spec, starters
from ci_compiler.spec.model import Spec

SPEC = ".github/ci-matrix.yaml"
KEY = "acme-1:0f8Hk9JvJ9bGmYVvHyuZQ6lZkkYHkS7pq2LZ4wWrbSg="
TOOLKIT = f"git+https://github.com/flox-cuda/ci-compiler@{'0' * 40}"
SMI = "GPU 0: NVIDIA L4 (UUID: GPU-1)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n"
FROM_AN_INDEX = """
import ci_compiler.cli.toolkit, types
ci_compiler.cli.toolkit.distribution = lambda _: types.SimpleNamespace(read_text=lambda _: None)
from ci_compiler.cli.compile import main
raise SystemExit(main())
"""
"""A ci-compile that was installed as a release from the package index, so that it asks for the toolkit."""

END, INTERRUPT = "\x04", "\x03"


def at_terminal(root: Path, *answers: str, words: Sequence[str] = ()) -> tuple[int, str]:
    """Runs `init` at a terminal, types an answer whenever it asks, and returns its exit code and what was shown."""
    child, terminal = pty.fork()
    if not child:
        os.chdir(root)
        os.environ["NO_COLOR"] = "1"
        os.execv(sys.executable, [sys.executable, "-c", FROM_AN_INDEX, "init", *words])  # noqa: S606
    shown, left = b"", list(answers)
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the program ended
            break
        shown += part
        if shown.endswith((b"] ", b"> ")):
            os.write(terminal, left.pop(0).encode())
    os.close(terminal)
    assert left == []
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode().replace("\r\n", "\n")


def init(root: Path, *words: str) -> int:
    return run(PROGRAM, ["init", "--root", str(root), *words])


def spec_at(root: Path) -> Spec:
    return load_spec(root / SPEC, shown=SPEC)


def files_of(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_terminal_asks_six_questions_and_writes_a_fleet_that_is_checked(tmp_path: Path) -> None:
    code, shown = at_terminal(tmp_path, "torch\n", "acme\n", f"{SMI}\n", "EPYC 9654\n", "\n", f"{TOOLKIT}\n")
    assert code == 0, shown
    assert len(QUESTIONS) == 5
    spec = spec_at(tmp_path)
    assert (spec.owner, spec.toolkit) == ("acme", TOOLKIT)
    gpus = {pool.name: (pool.gpu, pool.runs_on.labels[-1]) for pool in spec.pools if pool.gpu}
    assert gpus == {"l4": ("sm89", "gpu-sm89"), "h100": ("sm90", "gpu-sm90")}
    assert shown.count("missing, each with what makes it:") == 1
    for made_by in ("gh secret set FLOX_FLOXHUB_TOKEN --env publish", "ci-runner start l4", "`cache` in the spec"):
        assert made_by in shown
    for words in (["--check"], ["recipes", "--check"]):
        assert run(PROGRAM, [*words, "--root", str(tmp_path), "--branch", "main"]) == 0


def test_what_options_answer_is_not_asked_and_is_the_same(tmp_path: Path) -> None:
    typed, given = tmp_path / "stack", tmp_path / "other/stack"
    for root in (typed, given):
        root.mkdir(parents=True)
    words = ("--template", "vllm", "--builder", "EPYC 9654", "--publish-to", "floxhub", "--toolkit", TOOLKIT)
    code, shown = at_terminal(typed, "acme\n", "l4\n", words=words)
    assert code == 0, shown
    assert init(given, *words, "--owner", "acme", "--gpus", "L4") == 0
    assert files_of(typed) == files_of(given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["torhc\n", END], "did you mean torch?"),
        (["\n", "a b\n", END], "error: --owner: "),
        (["\n", "acme\n", "H10\n", END], "did you mean H100?"),
        (["\n", "acme\n", "MI300X\n", END], "is not one of NVIDIA's"),
        (["\n", "acme\n", "\n", "EPIC\n", END], "error: --builder: unknown CPU 'EPIC'"),
        (["\n", "acme\n", "\n", "github\n", END], "error: --builder: "),
        (["\n", "acme\n", "\n", "\n", "s3://acme\n", END], "the address and the public key"),
        (["\n", "acme\n", "\n", "\n", "\n", "nowhere\n", END], "error: --toolkit: "),
    ],
)  # fmt: skip
def test_a_wrong_answer_is_asked_again_and_the_end_of_the_input_writes_nothing(
    answers: list[str], said: str, tmp_path: Path
) -> None:
    code, shown = at_terminal(tmp_path, *answers)
    assert code == 2
    assert said in shown
    assert "the input ended before the last answer; nothing was written" in shown
    assert files_of(tmp_path) == {}


def test_ctrl_c_writes_nothing(tmp_path: Path) -> None:
    code, shown = at_terminal(tmp_path, "\n", INTERRUPT)
    assert (code, files_of(tmp_path)) == (130, {})
    assert "Traceback" not in shown


def test_without_a_terminal_a_missing_answer_names_its_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(tmp_path, "--gpus", "L4") == 2
    assert capsys.readouterr().err.startswith("error: --owner: is missing")
    assert files_of(tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("template", starters())
def test_every_template_takes_gpus_and_a_builder(template: str, tmp_path: Path) -> None:
    amd = template.endswith("-rocm")
    gpus = "MI300X, MI210" if amd else "RTX 4090, RTX 4080, H100"
    words = ("--template", template, "--owner", "acme", "--gpus", gpus, "--builder", "Ryzen 9 7950X")
    assert init(tmp_path, *words) == (1 if template == "own" else 0), "recipes of one's own are still to be written"
    spec = spec_at(tmp_path)
    pools = {pool.name for pool in spec.pools if "gpu" in pool.runs_on.labels[-1]}
    expected = {"gfx942", "gfx90a"} if amd else {"rtx-4090", "h100"}
    assert pools == expected
    assert run(PROGRAM, ["--check", "--root", str(tmp_path), "--branch", "main"]) == (1 if template == "own" else 0)


ORDER = (
    "gh repo create acme/",
    "ci-compile settings --write | sh",
    "gh secret set ",
    "ci-compile settings --check",
    "ci-runner start ",
    "git push ",
    "ci-compile dispatch NAME --publish --wait",
    "ci-compile dispatch '*' --publish",
    "`publish: {on-push: true}`",
)
"""What is missing, in the order in which nothing is built or published before what it needs is there."""


@pytest.mark.parametrize("template", starters())
def test_the_first_push_builds_and_publishes_nothing(
    template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything that a push would build, and the secret and the machines that it needs, come before it or after it."""
    init(tmp_path, "--template", template, "--owner", "acme", "--toolkit", TOOLKIT)
    spec = spec_at(tmp_path)
    assert not spec.publish.on_push
    first = plan(spec).shards[0].variants[0]
    said = capsys.readouterr().out.partition("missing, each with what makes it:\n")[2].replace(first, "NAME")
    assert "--push" not in said
    assert "[skip ci]" in next(line for line in said.splitlines() if "git push" in line)
    last = {part: max(n for n, line in enumerate(said.splitlines()) if part in line) for part in ORDER}
    assert sorted(last, key=lambda part: last[part]) == list(ORDER)


@pytest.mark.slow
@pytest.mark.parametrize("template", [name for name in starters() if not name.endswith("-rocm")])
def test_every_template_takes_machines_with_arm(template: str, tmp_path: Path) -> None:
    words = ("--template", template, "--owner", "acme", "--gpus", "GH200", "--builder", "Graviton4")
    assert init(tmp_path, *words) == (1 if template == "own" else 0), "recipes of one's own are still to be written"
    text = (tmp_path / SPEC).read_text("utf-8")
    assert not re.search(r"x86|x64|avx", text)
    assert {pool.system for pool in spec_at(tmp_path).pools} == {"aarch64-linux"}
    assert {isa for pool in spec_at(tmp_path).pools for isa in pool.cpu} <= {"armv9"}


def test_a_matrix_of_targets_keeps_the_cpu_and_the_instruction_sets_that_the_builder_runs(tmp_path: Path) -> None:
    words = ("--template", "torch-rocm", "--owner", "acme", "--gpus", "RX 7900 XTX", "--builder", "EPYC 7763")
    assert init(tmp_path, *words) == 0
    values = spec_at(tmp_path).matrix.values  # type: ignore[union-attr]
    assert values == {"python": ("3.13",), "isa": ("avx2",), "accelerator": ("rocm 6.4 gfx1100", "cpu")}


def test_a_spec_that_is_there_is_not_asked_about(tmp_path: Path) -> None:
    (tmp_path / SPEC).parent.mkdir()
    (tmp_path / SPEC).write_text("mine\n", "utf-8")
    code, shown = at_terminal(tmp_path, words=("--template", "wheel"))
    assert (code, shown) == (2, f"error: {SPEC}: exists already; edit it, or move it away first [in-the-way]\n")


def test_a_wheel_can_be_built_on_a_machine_of_github(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(tmp_path, "--template", "wheel", "--owner", "acme", "--builder", "github") == 0
    assert [pool.hosted for pool in spec_at(tmp_path).pools] == ["ubuntu-24.04", ""]
    said = capsys.readouterr().out
    assert "an index for numpy: " in said
    assert "gh secret set PUBLISH_TOKEN --env publish" in said
    assert "x86-builder" not in said, "GitHub's machines need no runner"


def test_wheels_for_several_gpus_are_installed_from_an_address_each(tmp_path: Path) -> None:
    assert init(tmp_path, "--template", "wheel", "--owner", "acme", "--gpus", "H100, RTX 5090") == 0
    table = (tmp_path / ".github/ci-matrix.yaml").read_text("utf-8")
    [install] = re.findall("install: (.*)", table)
    [publish] = re.findall("publish: (TWINE.*)", table)
    assert "/@gpu@/@isa@/" in install
    assert "/$VARIANT_GPU/$VARIANT_ISA/" in publish


def test_a_cache_stops_before_the_compile_until_the_hash_of_nixpkgs_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(tmp_path, "--owner", "acme", "--publish-to", f"s3://acme {KEY}") == 1
    said = capsys.readouterr()
    assert "[nixpkgs-unverified]" in said.err
    assert "`ci-compile hash`" in said.err
    assert set(files_of(tmp_path)) == {SPEC, ".github/ci-matrix.schema.json"}
    spec = spec_at(tmp_path)
    assert spec.backend.name == "nix"
    assert spec.cache is not None
    assert (spec.cache.url, spec.cache.public_key) == ("s3://acme", KEY)


def test_a_foreign_workflow_in_the_way_stops_before_the_first_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / ".github/workflows/pull-request.yml"
    mine.parent.mkdir(parents=True)
    mine.write_text("on: push\n", "utf-8")
    assert init(tmp_path, "--owner", "acme", "--gpus", "L4") == 2
    assert "[in-the-way]" in capsys.readouterr().err
    assert list(files_of(tmp_path)) == [".github/workflows/pull-request.yml"]


def test_the_branch_that_is_checked_out_is_the_branch_of_the_spec(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/trunk\n", "utf-8")
    assert init(tmp_path, "--owner", "acme", "--gpus", "none") == 0
    assert list(spec_at(tmp_path).branches) == ["trunk"]
    assert not any(pool.gpu for pool in spec_at(tmp_path).pools)


def test_a_fleet_in_kubernetes_has_a_cache_and_the_hashes_of_nixpkgs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetched = f"sha256-{'A' * 43}="
    monkeypatch.setattr("ci_compiler.cli.compile.init.fetched_hash", lambda _: fetched)
    words = ("--owner", "acme", "--toolkit", TOOLKIT, "--kubernetes")
    assert init(tmp_path, *words) == 2
    assert "--kubernetes: jobs in Kubernetes share no store" in (said := capsys.readouterr().err)
    assert "give it with --publish-to [pods-without-cache]" in said
    assert not (tmp_path / SPEC).exists()
    assert init(tmp_path, *words, "--publish-to", f"s3://acme {KEY}") == 0
    spec = spec_at(tmp_path)
    assert spec.cache
    assert [pin.hash for pin in named_commits(spec)] == [fetched]
    assert f"{spec.pools[0].name}.yaml" in deployment(spec, "arc").files


def test_files_need_no_cache_in_kubernetes(tmp_path: Path) -> None:
    words = ("--template", "wheel", "--owner", "acme", "--toolkit", TOOLKIT, "--kubernetes")
    assert init(tmp_path, *words) == 0
    assert spec_at(tmp_path).cache is None


def test_a_template_for_gpus_alone_needs_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--template", "wheel-rocm", "--owner", "acme", "--gpus")
    assert init(tmp_path, *words, "none") == 2
    assert "--gpus: the template builds for GPUs alone; name a GPU, such as gfx942" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert init(tmp_path, *words, "gfx90a:xnack+") == 0
    pool = spec_at(tmp_path).pools[-1]
    assert (pool.name, pool.accelerator, pool.runs_on.labels[-1]) == ("gfx90a", "rocm gfx90a", "gpu-gfx90a")
