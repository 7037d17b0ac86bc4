"""The templates of `ci-compile init`: they compile, their recipes evaluate, and no file is overwritten."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.plan.rules import judge
from ci_compiler.spec.build import STARTERS, load_spec, starters
from tests.loops import each
from tests.recipes.test_any_package import evaluated_in

SPEC, SCHEMA = ".github/ci-matrix.yaml", ".github/ci-matrix.schema.json"
NAMES = ["torch", "jax", "llama-cpp", "own", "template", "torch-rocm", "vllm", "wheel", "wheel-rocm"]

every_starter = pytest.mark.parametrize("name", NAMES)


def ci(root: Path, *argv: str) -> int:
    return run(PROGRAM, [*argv, "--root", str(root)])


def files_of(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def variants_of(root: Path) -> list[str]:
    cells = judge(load_spec(root / SPEC, shown=SPEC)).cells
    return [variant.name for cell in cells for variant in cell.variants]


def test_the_help_names_the_folders(capsys: pytest.CaptureFixture[str]) -> None:
    assert starters() == NAMES
    with pytest.raises(SystemExit):
        run(PROGRAM, ["init", "--help"])
    assert f"--template {{{','.join(NAMES)}}}" in capsys.readouterr().out


@every_starter
def test_a_starter_compiles_and_its_recipes_evaluate(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ci(tmp_path, "init", "--template", name, "--owner", "some-org") == 0
    written = files_of(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    assert set(written) == {SCHEMA, *files_of(STARTERS / name)}
    said = capsys.readouterr().out
    assert [path for path in written if path not in said] == []
    assert b"owner: some-org  #" in written[SPEC]
    assert ci(tmp_path) == 0
    assert ci(tmp_path, "recipes", "--branch", "main") == 0
    assert ci(tmp_path, "--check", "--branch", "main") == 0
    findings = [
        line for line in capsys.readouterr().err.splitlines() if "[no-cache]" not in line and "ci-compiler" not in line
    ]
    assert findings == []
    assert {path: data for path, data in files_of(tmp_path).items() if path in written} == written
    if not name.startswith("wheel"):
        for variant in variants_of(tmp_path):
            assert evaluated_in(tmp_path, variant)["recorded"]["pname"] == variant


def starter(name: str, tmp_path: Path, *variants: str) -> list[dict[str, Any]]:
    """What some variants of the starter `name` evaluate to."""
    assert ci(tmp_path, "init", "--template", name) == 0
    assert ci(tmp_path, "recipes", "--branch", "main") == 0
    return [evaluated_in(tmp_path, variant) for variant in variants]


@pytest.mark.parametrize("name", ["own", "template"])
def test_recipes_that_are_not_compiled_hold_the_hardware_of_their_names(name: str, tmp_path: Path) -> None:
    names = ("pytorch-python313-cpu-avx2", "pytorch-python313-cuda12_8-sm90-avx2")
    cpu, gpu = (one["recorded"] for one in starter(name, tmp_path, *names))
    assert (cpu["gpuTargets"], gpu["gpuTargets"]) == ([], ["9.0"])
    assert (len(cpu["buildInputs"]), len(gpu["buildInputs"])) == (0, 1), "nccl"
    for one in (cpu, gpu):
        assert 'CFLAGS="-mavx2 -mfma -mf16c $CFLAGS"' in one["preConfigure"]
        assert one["preConfigure"].endswith(" MAX_JOBS=32\n")


def test_vllm_has_one_torch_and_the_architecture_of_its_name(tmp_path: Path) -> None:
    (vllm,) = starter("vllm", tmp_path, "vllm-python313-cuda12_8-sm89-avx512")
    assert "-DTORCH_CUDA_ARCH_LIST:STRING=8.9" in vllm["recorded"]["cmakeFlags"]
    assert len(vllm["torches"]) == 1


def test_jax_and_llama_cpp_have_the_architecture_of_their_names(tmp_path: Path) -> None:
    for folder in ("jax", "llama"):
        (tmp_path / folder).mkdir()
    (jax,) = starter("jax", tmp_path / "jax", "jaxlib-python312-cuda12_4-sm89-avx2")
    assert jax["recorded"]["TF_CUDA_COMPUTE_CAPABILITIES"] == ["sm_89"]
    (llama,) = starter("llama-cpp", tmp_path / "llama", "llama-cpp-python313-cuda12_8-sm89-avx2")
    assert llama["recorded"]["cmakeFlags"][-1] == "-DCMAKE_CUDA_ARCHITECTURES=89"


def test_torch_for_rocm_has_the_target_of_its_name_and_one_torch(tmp_path: Path) -> None:
    names = [f"{package}-python313-rocm6_4-gfx90a-avx512" for package in ("pytorch", "torchvision")]
    torch, vision = starter("torch-rocm", tmp_path, *names)
    assert torch["recorded"]["gpuTargets"] == ["gfx90a"]
    assert vision["torches"] == [Path(torch["drvPath"]).name]


def test_the_wheel_script_builds_from_source_with_the_flags(tmp_path: Path) -> None:
    assert ci(tmp_path, "init", "--template", "wheel") == 0
    python = tmp_path / "bin/python3.13"
    python.parent.mkdir()
    pip = 'mkdir dist; echo "$CFLAGS $*" > dist/numpy.whl'
    python.write_text(f"#!/bin/sh\nmkdir \"$3/bin\"; printf '%s\\n' '#!/bin/sh' '{pip}' > \"$3/bin/pip\"\n", "utf-8")
    with python.open("a", encoding="utf-8") as script:
        script.write('chmod +x "$3/bin/pip"\n')
    python.chmod(0o755)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/old.whl").touch()
    values = {"PACKAGE": "numpy", "VERSION": "2.3.4", "PYTHON": "3.13", "FLAGS": "-mavx2 -mfma", "JOBS": "8"}
    env = {f"VARIANT_{key}": value for key, value in values.items()}
    env |= {"PATH": f"{python.parent}:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "bin")}
    subprocess.run([tmp_path / "ci/build-wheel.sh"], cwd=tmp_path, env=env, check=True)
    assert [path.name for path in (tmp_path / "dist").iterdir()] == ["numpy.whl"]
    made = (tmp_path / "dist/numpy.whl").read_text("utf-8")
    assert made == "-mavx2 -mfma wheel --no-deps --wheel-dir dist --no-binary numpy numpy==2.3.4\n"
    assert [path.name for path in python.parent.iterdir()] == ["python3.13"], "the virtual environment is removed"


def test_the_script_for_rocm_builds_for_the_target_of_the_variant(tmp_path: Path) -> None:
    assert ci(tmp_path, "init", "--template", "wheel-rocm") == 0
    python = tmp_path / "bin/python3.13"
    python.parent.mkdir()
    pip = f'echo "$PYTORCH_ROCM_ARCH $MAX_JOBS $*" >> "{tmp_path}/said"'
    python.write_text(f"#!/bin/sh\nmkdir -p \"$3/bin\"; printf '%s\\n' '#!/bin/sh' '{pip}' > \"$3/bin/pip\"\n", "utf-8")
    with python.open("a", encoding="utf-8") as script:
        script.write('chmod +x "$3/bin/pip"\n')
    python.chmod(0o755)
    values = {"PYTHON": "3.13", "ACCELERATOR_TAG": "rocm7.1", "TARGET": "gfx942,gfx1100", "JOBS": "8"}
    env = {f"VARIANT_{key}": value for key, value in values.items()} | {"PATH": f"{python.parent}:{os.environ['PATH']}"}
    subprocess.run([tmp_path / "ci/build-wheel.sh"], cwd=tmp_path, env=env, check=True)
    torch, _, built = (tmp_path / "said").read_text("utf-8").splitlines()
    assert torch.strip() == "install torch --index-url https://download.pytorch.org/whl/rocm7.1"
    assert built == "gfx942;gfx1100 8 wheel --no-deps --no-build-isolation --wheel-dir dist ."


def test_the_bytecode_that_an_installation_leaves_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    shutil.copytree(STARTERS / "wheel-rocm", installed / "wheel-rocm")
    assert compileall.compile_dir(installed, quiet=1, force=True)
    (tmp_path / "mine").mkdir()
    monkeypatch.setattr("ci_compiler.cli.compile.init.STARTERS", installed)
    assert ci(tmp_path / "mine", "init", "--template", "wheel-rocm") == 0
    assert set(files_of(tmp_path / "mine")) == {SCHEMA, *files_of(STARTERS / "wheel-rocm")}
    assert list((tmp_path / "mine").rglob("*.pyc")) == []


@every_starter
def test_a_file_that_is_there_is_kept_and_nothing_is_written(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in each(files_of(STARTERS / name)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("mine\n", "utf-8")
        before = files_of(tmp_path)
        assert ci(tmp_path, "init", "--template", name) == 2
        assert (
            capsys.readouterr().err == f"error: {path}: exists already; edit it, or move it away first [in-the-way]\n"
        )
        assert files_of(tmp_path) == before
        (tmp_path / path).unlink()


def test_a_starter_that_cannot_be_written_whole_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = Path.write_text

    def full(path: Path, text: str, *words: str, **more: str) -> int:
        if path.name == "ci-matrix.yaml":
            raise OSError(28, "No space left on device", str(path))
        return write(path, text, *words, **more)

    monkeypatch.setattr(Path, "write_text", full)
    assert ci(tmp_path, "init", "--template", "own") == 2
    assert "No space left on device" in capsys.readouterr().err
    assert files_of(tmp_path) == {}
    monkeypatch.undo()
    assert ci(tmp_path, "init", "--template", "own") == 0
