"""`select`: a table of machines, and a check that nothing better than its choice can run."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_compiler.cli.compile import main
from ci_compiler.hardware import pasted, products, tables
from ci_compiler.hardware.machine import GpuDevice, Machine
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.rules import judge
from ci_compiler.reports.offers import Wishes
from ci_compiler.reports.select import Recommendation, rarest, select
from ci_compiler.spec.build import bundled_spec
from tests.checkers.tools import require
from tests.reports.machines import Case, cases
from tests.rows import for_each_row
from tests.specs import documents, small, spec_of


@cache
def bundled_plan() -> Plan:
    return plan(bundled_spec())


@pytest.fixture
def bundled() -> Plan:
    return bundled_plan()


@for_each_row(cases(), str)
def test_machines(case: Case) -> None:
    bundled = bundled_plan()
    choice = select(bundled.spec, bundled.judged.cells, case.machine, case.wishes)
    assert (choice.best.name if choice.best else None) == case.best
    assert (choice.best.branch if choice.best else "") == case.branch
    assert choice.impossible == case.impossible
    assert case.says in "; ".join((*choice.problems, *choice.why, *choice.doubts))


def test_the_table_has_nearly_every_product_and_enough_machines() -> None:
    """A new row of the hardware tables needs no case here."""
    held = {case.gpu for case in cases()}
    products = {product for gpu in tables().gpus.values() for product in gpu.products}
    assert len(products & held) >= 0.9 * len(products)
    assert len(cases()) == len(set(map(str, cases()))) >= 58
    assert len(held) >= 60
    rows = {(case.gpu, case.cpu, case.driver) for case in cases()}
    assert {("Jetson AGX Orin", None, "580"), ("GTX 1080 Ti", "i9-12900K", "590"), ("none", "Apple M2", "")} <= rows


def asked(bundled: Plan, gpu: str, cpu: str, driver: str = "", **wishes: Any) -> Recommendation:
    machine = Case(gpu=gpu, cpu=cpu, driver=driver, best=None, branch="").machine
    return select(bundled.spec, bundled.judged.cells, machine, Wishes(**{"package": "pytorch"} | wishes))


def test_runners_up_differ_in_one_thing_and_say_which(bundled: Plan) -> None:
    choice = asked(bundled, "RTX 4090", "Zen 4", "580")
    assert [(one.offer.name.removeprefix("pytorch-python313-"), one.note) for one in choice.runners_up] == [
        ("cuda13_0-sm89-avx512vnni", "for INT8 work"),
        ("cuda13_0-sm89-avx512bf16", "for BF16 work"),
        ("cuda13_0-sm89-avx2", "leaves avx512 unused"),
        ("cuda12_9-sm89-avx512", "older: CUDA 12.9, pytorch 2.9.1"),
        ("cuda12_8-sm89-avx512", "older: CUDA 12.8, pytorch 2.8.0"),
        ("cuda13_0-sm86-avx512", "built for sm86, further from sm89"),
        ("cuda13_0-sm80-avx512", "built for sm80, further from sm89"),
        ("cpu-avx512", "leaves the GPU idle"),
    ]
    assert choice.better == ()


def test_each_newer_driver_that_helps_is_listed(bundled: Plan) -> None:
    choice = asked(bundled, "H100", "Zen 4", "520")
    assert [(one.offer.branch, one.note) for one in choice.better] == [
        ("cuda-12_9", "driver 525 or newer"),
        ("cuda-13_0", "driver 580 or newer"),
    ]
    assert all(one.offer.target == "sm90" for one in choice.better)


def test_a_branch_that_rules_out_the_best_is_named(bundled: Plan) -> None:
    choice = asked(bundled, "B300", "Zen 5", "575", branch="main")
    assert [(one.offer.name, one.note) for one in choice.better] == [
        ("pytorch-python313-cuda12_9-sm103-avx512", "cuda-12_9 in place of main")
    ]


def test_the_nearest_variant_is_named_if_nothing_fits(bundled: Plan) -> None:
    without = asked(bundled, "none", "Sandy Bridge", branch="main")
    assert [(one.offer.branch, one.note) for one in without.better] == [("cuda-13_0", "cuda-13_0 in place of main")]
    old = asked(bundled, "none", "Nehalem")
    assert [(one.offer.name, one.note) for one in old.better] == [("pytorch-python313-cpu-avx", "a CPU that runs avx")]
    foreign = select(
        bundled.spec, bundled.judged.cells, Machine(system="aarch64-darwin"), Wishes(package="torchvision")
    )
    assert foreign.best is None
    [problem] = foreign.problems
    assert problem.startswith("torchvision has no variant for macOS: these are Linux packages; a Linux virtual machine")


def test_the_strongest_of_several_gpus_counts(bundled: Plan) -> None:
    devices = [products.device(tables(), name) for name in ("GTX 1080", "RTX 4090", "RTX 3090")]
    machine = Machine(system="x86_64-linux", isas=("avx", "avx2"), gpus=tuple(one for one in devices if one))
    choice = select(bundled.spec, bundled.judged.cells, machine, Wishes(package="pytorch"))
    assert choice.best is not None
    assert choice.best.target == "sm89"
    assert choice.why[0] == "sm89 (RTX 4090) is the strongest GPU of this machine"


def test_a_driver_that_no_longer_runs_the_gpu_is_named_with_the_last_that_does(bundled: Plan) -> None:
    choice = asked(bundled, "GTX 1080 Ti", "i9-12900K", "590")
    assert [(one.offer.name, one.note) for one in choice.better] == [
        ("pytorch-python313-cuda12_9-sm61-avx2", "a driver of branch 580")
    ]
    assert choice.best is not None
    assert choice.best.target == "cpu"
    assert "sm61" not in {one.offer.target for one in choice.runners_up}


def test_an_unknown_driver_is_a_doubt_and_a_known_one_is_not(bundled: Plan) -> None:
    assert asked(bundled, "RTX 4090", "Zen 4", "580").doubts == ()
    [doubt] = asked(bundled, "RTX 4090", "Zen 4").doubts
    assert doubt == "CUDA 13.0 needs driver 580 or newer; the driver here is not known, nvidia-smi prints it"
    assert asked(bundled, "none", "Zen 4").doubts == ()


def test_what_is_switched_off_is_said(bundled: Plan) -> None:
    for package in ("pytorch", "torchaudio"):
        cudnn, avx = asked(bundled, "GTX 1080", "Sandy Bridge", "580", package=package).without
        assert cudnn.startswith("cuDNN: convolutions")
        assert avx.startswith("FBGEMM, oneDNN and NNPACK")
    assert asked(bundled, "RTX 4090", "Zen 4", "580").without == ()


def test_the_version_of_cudnn_is_given_where_it_is_known(bundled: Plan) -> None:
    for package in ("pytorch", "torchvision"):
        assert asked(bundled, "RTX 4090", "Zen 4", "580", package=package).dnn == "9.13.0"
    assert asked(bundled, "RTX 4090", "Zen 4", "580", branch="main").dnn == "9.x"
    assert asked(bundled, "GTX 1080", "Zen 4", "580").dnn == ""
    assert asked(bundled, "none", "Zen 4").dnn == ""


# Installing.


def test_flox_installs_what_is_needed_first(bundled: Plan) -> None:
    names = [f"flox-cuda/{name}-python313-cuda13_0-sm89-avx512" for name in ("pytorch", "torchvision")]
    [line] = asked(bundled, "RTX 4090", "Zen 4", package="torchvision").install
    assert line == f"flox install {' '.join(names)}"


def test_a_name_on_several_branches_gets_its_version(bundled: Plan) -> None:
    assert asked(bundled, "none", "Haswell", package="torchaudio", branch="cuda-12_9").install == (
        "flox install flox-cuda/pytorch-python313-cpu-avx2@2.9.1 flox-cuda/torchaudio-python313-cpu-avx2@2.9.1",
    )
    assert asked(bundled, "none", "Sandy Bridge").install == ("flox install flox-cuda/pytorch-python313-cpu-avx",)


def test_everything_is_one_line_and_is_verified_by_another(bundled: Plan) -> None:
    machine = Case(gpu="H100", cpu="Zen 4", driver="580", best=None, branch="").machine
    choice = select(bundled.spec, bundled.judged.cells, machine, Wishes(package="pytorch"), everything=True)
    names = [f"flox-cuda/{name}-python313-cuda13_0-sm90-avx512" for name in ("pytorch", "torchvision", "torchaudio")]
    assert choice.install == (f"flox install {' '.join(names)}",)
    [line] = choice.verify
    assert shlex.split(line)[:-1] == ["flox", "activate", "--", "python3", "-c"]
    shown = "torch.__version__, torchvision.__version__, torchaudio.__version__"
    script = f'import torch, torchvision, torchaudio; print({shown}, torch.ones(1, device="cuda"))'
    assert shlex.split(line)[-1] == script
    compile(script, "script", "exec")


def test_what_is_recalled_is_not_in_the_line() -> None:
    recalls = {"torchvision-python313-cuda12_8-sm90-avx2": {"because": "wrong boxes"}}
    spec = spec_of(small(recalls=recalls))
    cells = judge(spec).cells
    machine = Case(gpu="H100", cpu="avx2", driver="", best=None, branch="").machine
    choice = select(spec, cells, machine, Wishes(package="pytorch"), everything=True)
    assert all("torchvision" not in line for line in (*choice.install, *choice.verify))
    assert "torchvision: not built for this choice, or recalled" in "; ".join(choice.without)
    assert rarest(spec, cells) == "torchvision"


def test_nix_builds_out_of_the_cache() -> None:
    key = "k-1:" + "A" * 43 + "="
    spec = spec_of(small(backend="nix", cache={"url": "s3://c?region=x&profile=y", "public-key": key}))
    machine = Case(gpu="H100", cpu="avx2", driver="", best=None, branch="").machine
    assert select(spec, judge(spec).cells, machine, Wishes(package="torchvision")).install == (
        "git switch main",
        (
            "nix-build .flox/pkgs/torchvision-python313-cuda12_8-sm90-avx2.nix --option extra-substituters"
            f" 's3://c?region=x&profile=y' --option extra-trusted-public-keys {key}"
        ),
    )


def test_a_build_of_nix_is_verified_in_a_python_that_has_it(tmp_path: Path) -> None:
    """The stand-in for `nix-build` evaluates the expression, and the recipes say what their Python is asked for."""
    spec = spec_of(small(backend="nix", cache={"url": "s3://c?region=x&profile=y", "public-key": f"k-1:{'A' * 43}="}))
    machine = Case(gpu="H100", cpu="avx2", driver="", best=None, branch="").machine
    choice = select(spec, judge(spec).cells, machine, Wishes(package="pytorch"), everything=True)
    names = [f"{name}-python313-cuda12_8-sm90-avx2" for name in ("pytorch", "torchvision")]
    (tmp_path / ".flox/pkgs").mkdir(parents=True)
    for name in names:
        python = "{ withPackages = choose: toString (map (one: one.name) (choose { })); }"
        (tmp_path / f".flox/pkgs/{name}.nix").write_text(f'{{ ... }}: {{ name = "{name}"; pythonModule = {python}; }}')
    evaluate = (
        'nix-build() { [ "$1 $2" = "--no-out-link --expr" ] && [ "$6" = "s3://c?region=x&profile=y" ] && '
        f'{require("nix-instantiate")} --eval --expr "$3" >asked && echo {tmp_path}; }}\n'
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text('#!/bin/sh\necho "$2"\n')
    (tmp_path / "bin/python3").chmod(0o755)
    [line] = choice.verify
    done = subprocess.run(["bash", "-c", evaluate + line], cwd=tmp_path, capture_output=True, text=True, check=True)
    shown = 'print(torch.__version__, torchvision.__version__, torch.ones(1, device="cuda"))'
    assert done.stdout == f"import torch, torchvision; {shown}\n"
    assert (tmp_path / "asked").read_text() == f'"{" ".join(names)}"\n'


# The machine can run the choice, and nothing better.


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    hardware = tables()
    system = draw(st.sampled_from(sorted({system for gpu in hardware.gpus.values() for system in gpu.systems})))
    own = [isa.name for isa in hardware.isas.values() if isa.system == system]
    isas = hardware.runs(draw(st.lists(st.sampled_from(own), unique=True)), system)
    known = [gpu.capability for gpu in hardware.gpus.values() if system in gpu.systems]
    driver = draw(st.sampled_from(["", "470.1", "525.60.13", "569", "570.86", "579.9", "580", "584.9", "585", "600.2"]))
    gpus = [
        GpuDevice(index=index, name=f"card {index}", capability=capability, driver=driver)
        for index, capability in enumerate(draw(st.lists(st.sampled_from(known), max_size=2)))
    ]
    return Machine(system=system, isas=tuple(name for name in hardware.isas if name in isas), gpus=tuple(gpus))


def runs(machine: Machine, cell: Cell, cuda: str) -> bool:
    """Whether the machine's strongest GPU, driver and CPU run the builds of `cell`, judged by the facts alone."""
    hardware = tables()
    if cell.system != machine.system or cell.isa not in machine.isas:
        return False
    if cell.target == "cpu":
        return True
    if not machine.gpus:
        return False
    major, minor = max(device.capability for device in machine.gpus)
    own, built = hardware.gpu(f"sm{major}{minor}"), hardware.gpu(cell.target)
    lowest = max(hardware.toolkit(cuda).lowest_driver, own.driver)
    driver = machine.gpus[0].driver
    number = int(driver.split(".")[0] or 0) if driver else lowest
    ended = {"Maxwell", "Pascal", "Volta"}  # their last driver branch is 580
    return own.runs_code_of(built) and number >= lowest and (own.architecture not in ended or number < 585)


@given(documents(), machines(), st.sampled_from(Workload))
@settings(max_examples=60, deadline=None)
def test_nothing_better_runs(document: dict[str, Any], machine: Machine, workload: Workload) -> None:
    spec = spec_of(document)
    cells = judge(spec).cells
    choice = select(spec, cells, machine, Wishes(package="p0", workload=workload))
    cuda = {name: tables().toolkit(next(iter(branch.toolkits))).version for name, branch in spec.branches.items()}
    running = {(cell.branch, cell.target, cell.isa, cell.python) for cell in cells if runs(machine, cell, cell.toolkit)}
    if choice.best is None:
        assert not running
        assert choice.problems
        return
    best = choice.best
    assert (best.branch, best.target, best.isa, best.python) in running
    assert {
        (one.offer.branch, one.offer.target, one.offer.isa, one.offer.python) for one in choice.runners_up
    } <= running
    assert (
        not {(one.offer.branch, one.offer.target, one.offer.isa, one.offer.python) for one in choice.better} & running
    )
    if best.target == "cpu":
        assert {gpu for _, gpu, _, _ in running} == {"cpu"}
    else:
        assert (
            max(tables().gpu(gpu).capability for _, gpu, _, _ in running if gpu != "cpu")
            == tables().gpu(best.target).capability
        )
    alike = [one for one in running if one[1] == best.target]
    assert cuda[best.branch] == max(cuda[branch] for branch, _, _, _ in alike)
    isas = {isa for branch, _, isa, _ in alike if branch == best.branch}
    if workload.isa in isas:
        assert best.isa == workload.isa
    elif "avx512" in isas:
        assert best.isa == "avx512"
    elif isas & {"avx512bf16", "avx512vnni"}:
        assert best.isa in {"avx512bf16", "avx512vnni"}
    else:
        assert all(isa in tables().runs([best.isa]) for isa in isas)
    pythons = {python for branch, _, isa, python in alike if (branch, isa) == (best.branch, best.isa)}
    assert best.python == max(pythons)


# The command.


def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["ci-compile", "select", *words])
    code = main()
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command_answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--gpu", "rtx 4090", "--cpu", "zen4", "--driver", "580.65", "--package", "torchvision")
    code, out, err = command(capsys, monkeypatch, *words)
    assert (code, err) == (0, "")
    assert out.startswith("torchvision-python313-cuda13_0-sm89-avx512\n")
    assert "flox install flox-cuda/pytorch-python313-cuda13_0-sm89-avx512 flox-cuda/torchvision" in out
    code, out, _ = command(capsys, monkeypatch, *words, "--json")
    answer = json.loads(out)
    assert answer["best"]["name"] == "torchvision-python313-cuda13_0-sm89-avx512"
    assert answer["machine"]["gpus"] == [{"name": "rtx 4090", "sm": "sm89", "driver": "580.65"}]


def test_without_options_it_is_this_machine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Machine(system="aarch64-linux", isas=("armv8_2", "armv9"), cpu="mine")
    monkeypatch.setattr("ci_compiler.cli.compile.select.this_machine", lambda *_, **__: here)
    code, out, _ = command(capsys, monkeypatch, "--json")
    assert code == 0
    assert json.loads(out)["best"]["name"] == "pytorch-python313-cpu-armv9"


def test_the_command_exits_with_1_if_nothing_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = command(capsys, monkeypatch, "--gpu", "none", "--cpu", "nehalem")
    assert code == 1
    assert "no variant serves this machine" in out
    assert "pytorch-python313-cpu-avx" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpu", "DGX Sprak"), "--gpu: unknown GPU 'DGX Sprak'; did you mean DGX Spark?"),
        (("--gpu", "none", "--cpu", "armv8.2"), "--cpu: unknown ISA 'armv8.2'; did you mean armv8_2?"),
        (("--gpu", "none", "--cpu", "avx2,armv9"), "'avx2,armv9' holds instruction sets of"),
        (("--gpu", "Radeon VII"), "is not one of NVIDIA's"),
        (
            ("--gpu", "DGX Spark", "--cpu", "Zen 4"),
            "--cpu: sm121 (DGX Spark (GB10)) comes only with",
        ),
        (("--driver", "new"), "--driver: 'new' is not a driver's version"),
        (
            ("--package", "torchvison"),
            "--package: unknown package 'torchvison'; did you mean torchvision",
        ),
        (("--branch", "cuda-12.9"), "--branch: unknown branch 'cuda-12.9'; did you mean cuda-12_9"),
        (("--python", "2.7"), "--python: unknown python '2.7'; known are 3.13"),
    ],
)
def test_wrong_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    code, out, err = command(capsys, monkeypatch, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


# Machines elsewhere.

LSCPU = "Modellname: AMD EPYC 9654\nMarkierungen: fpu avx f16c avx2 fma bmi1 avx512f avx512dq avx512bw avx512vl\n"


def standard_input(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.parametrize(
    ("text", "best"),
    [
        (LSCPU + "GPU 0: NVIDIA H100 PCIe (UUID: GPU-1)", "cuda13_0-sm90-avx512"),
        (LSCPU + "NVIDIA L40S, 8.9, 535.183.01", "cuda12_9-sm89-avx512"),
        (LSCPU, "cpu-avx512"),
        ("NVIDIA GB10", "cuda13_0-sm121-armv9"),
        ("NVIDIA A30", "cuda13_0-sm80-avx2"),
        ("model name : Intel(R) Xeon(R) Platinum 8480+", "cpu-avx512"),
    ],
)
def test_what_another_machine_printed(bundled: Plan, text: str, best: str) -> None:
    machine = pasted.machine(tables(), pasted.read(tables(), text))
    choice = select(bundled.spec, bundled.judged.cells, machine, Wishes(package="pytorch"))
    assert choice.best is not None
    assert choice.best.name == f"pytorch-python313-{best}"


@pytest.mark.parametrize(
    ("words", "best"),
    [
        ((), "cuda13_0-sm90-avx512"),
        (("--cpu", "Haswell"), "cuda13_0-sm90-avx2"),
        (("--gpu", "RTX 4090", "--driver", "570"), "cuda12_9-sm89-avx512"),
    ],
)
def test_options_replace_what_another_machine_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], best: str
) -> None:
    standard_input(monkeypatch, LSCPU + "GPU 0: NVIDIA H100 PCIe (UUID: GPU-1)")
    code, out, err = command(capsys, monkeypatch, "--machine", "-", *words)
    assert (code, err) == (0, "")
    assert out.startswith(f"pytorch-python313-{best}\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello", "no GPU or CPU is named in it"),
        (f"{LSCPU}NVIDIA-SMI has failed because", "nvidia-smi failed there, so no GPU is named; give --gpu"),
        ("GPU 0: NVIDIA GeForce ... (UUID: GPU-1)", "cut short; `nvidia-smi -L` prints it whole"),
        ("GPU 0: NVIDIA RTX 490 (UUID: GPU-1)", "unknown GPU 'NVIDIA RTX 490'"),
    ],
)
def test_output_that_says_too_little(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    standard_input(monkeypatch, text)
    code, out, err = command(capsys, monkeypatch, "--machine", "-")
    assert (code, out) == (2, "")
    assert said in err


def test_an_answer_says_what_never_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = command(capsys, monkeypatch, "--gpu", "B200", "--cpu", "Sapphire Rapids")
    assert "  untested   gpu-test never runs: no pool" in out
    _, out, _ = command(capsys, monkeypatch, "--gpu", "RTX 3090", "--cpu", "Zen 4")
    assert "gpu-test runs on l4 (self-hosted, linux, x64, gpu-sm89), with sm89, which runs the code for sm86" in out
    assert "untested" not in out


@pytest.mark.parametrize(
    ("given", "best"),
    [
        ("2x RTX 3090 + Ryzen 9 5950X", "cuda13_0-sm86-avx2"),
        ("no GPU, Graviton3", "cpu-armv8_2"),
    ],
)
def test_a_machine_in_place_of_a_gpu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, given: str, best: str
) -> None:
    code, out, _ = command(capsys, monkeypatch, "--gpu", given)
    assert (code, out.split()[0]) == (0, f"pytorch-python313-{best}")


@pytest.mark.parametrize("words", [("--gpu", "H100", "--cpu", "unknown"), ("--gpu", "none", "--cpu", "Nehalem")])
def test_its_answer_is_valid_by_the_schema(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    _, schema, _ = command(capsys, monkeypatch, "--schema")
    _, out, _ = command(capsys, monkeypatch, *words, "--package", "all", "--json")
    jsonschema.validate(json.loads(out), json.loads(schema))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpu", "H100"], "--gpu: sm90 (H100, "),
        (["--gpu", "H100", "--cpu", "apple"], "--cpu: sm90 (H100, "),
    ],
)
def test_a_gpu_that_this_machine_cannot_have_is_refused_by_the_option_that_was_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    """On a Mac, where people ask for another machine."""
    here = Machine(system="aarch64-darwin", isas=(), cpu="Apple M4")
    monkeypatch.setattr("ci_compiler.cli.compile.select.this_machine", lambda *_, **__: here)
    code, _, err = command(capsys, monkeypatch, *words)
    assert code == 2
    assert err.startswith(f"error: {said}")
    assert ("`--cpu` names that of the machine" in err) == ("--cpu" not in words)
