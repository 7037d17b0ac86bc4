"""A wheel and a recipe for ROCm go from a spec to the verdict; no GPU is needed, and nothing here has run on one.

The machine of the GPU pool has the files of a kernel with one MI300X, and a `rocminfo` (`bin/mi300x`). The package is a
stand-in for PyTorch (`runner/jobs/packages`), which says what a ROCm PyTorch would say there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ci_compiler
from tests.backends import wheel
from tests.backends.wheel import PYTHON, TAG
from tests.checkers import require
from tests.runner.jobs.world import PACKAGES

from .test_command import WheelWorld
from .world import HERE, World, in_a_folder

pytestmark = pytest.mark.weekly

if TYPE_CHECKING:
    from .act import Run

NAME = f"pytorch-{TAG}-rocm7_1-gfx942-x86_64-linux"
FILE = "build-main-rocm7_1-gfx942.yml"

BUILD = '''\
"""Makes a wheel of the stand-in, which says that it is built for the accelerator of the variant."""

import json
import os
import zipfile

value = {name: os.environ[f"VARIANT_{name}"] for name in ("VERSION", "TOOLKIT", "TARGET")}
behaviour = {
    "version": value["VERSION"],
    "hip": f"{value['TOOLKIT']}.25424",
    "architectures": [value["TARGET"]],
    "cudnn": 3005001,
    "gpus": [["AMD Instinct MI300X", "gfx942:sramecc+:xnack-"]],
}
info = f"torch-{value['VERSION']}.dist-info"
files = {
    "torch/__init__.py": open("torch/__init__.py").read(),
    "behaviour.json": json.dumps(behaviour),
    f"{info}/METADATA": f"Metadata-Version: 2.1\\nName: torch\\nVersion: {value['VERSION']}\\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: ci\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
}
files[f"{info}/RECORD"] = "".join(f"{name},,\\n" for name in [*files, f"{info}/RECORD"])
os.makedirs("dist", exist_ok=True)
with zipfile.ZipFile(f"dist/torch-{value['VERSION']}-py3-none-any.whl", "w") as archive:
    for path, text in files.items():
        archive.writestr(path, text)
'''

SPEC: dict[str, Any] = {
    "version": 1,
    "owner": "my-org",
    "backend": "command",
    "branches": {"main": {"versions": {"pytorch": "2.8.0"}}},
    "packages": {
        "pytorch": {
            "attribute": "torch",
            "disk": 1,
            "memory": 1,
            "jobs": 1,
            "command": {
                "build": "ci/build.sh",
                "files": ["dist/*.whl"],
                "sources": ["torch", "ci"],
                "install": "pip install torch==@version@",
                "publish": 'test "$PUBLISH_TOKEN" = "correct horse"; mkdir -p "$INDEX"; cp "$VARIANT_FILES"/* "$INDEX"',
            },
        }
    },
    "matrix": {"values": {"python": PYTHON, "platform": "x86_64-linux", "accelerator": "rocm 7.1 gfx942"}},
    "runners": {
        "builder": {"runs-on": ["self-hosted", "linux", "x64", "builder"], "stages": ["build", "publish"]},
        "tester": {"runs-on": ["self-hosted", "linux", "x64", "tester"], "stages": ["cpu-test"]},
        "mi300x": {
            "runs-on": ["self-hosted", "linux", "x64", "mi300x"],
            "accelerator": "rocm gfx942",
            "stages": ["gpu-test"],
        },
    },
    "publish": {"environment": "release", "on-shared-machines": True},
}


RECIPE = f"pytorch-{TAG}-rocm6_4-gfx942-avx2"
FILE_OF_RECIPE = "build-main-rocm6_4-gfx942.yml"
OF_RECIPE = SPEC | {
    "backend": "nix",
    "packages": {"pytorch": {"attribute": "torch", "disk": 1, "memory": 1, "jobs": 1}},
    "matrix": {"values": {"python": PYTHON, "isa": "avx2", "accelerator": "rocm 6.4 gfx942"}},
    "runners": {name: pool | {"cpu": ["avx2"]} for name, pool in SPEC["runners"].items()},
}


class AmdWorld(World):
    """A world with a machine whose GPU is one of AMD's, in a namespace with its files."""

    def plug_in(self, errors: int = 0) -> None:
        """Gives the machine of the GPU pool its GPU, with a number of uncorrectable errors."""
        rows = {"gfx_target_version": 90402, "unique_id": 0x8AF705259683161C, "drm_render_minor": 128}
        files = {
            "kfd/kfd/topology/nodes/1/properties": "".join(f"{key} {value}\n" for key, value in rows.items()),
            "drm/renderD128/device/ras/umc_err_count": f"ue: {errors}\nce: 0\n",
        }
        for name, text in files.items():
            path = self.machines / "mi300x/class" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")

    @cached_property
    def environment(self) -> dict[str, str]:
        """The environment with the machine of the GPU pool."""
        return super().environment | {"E2E_GPU": "mi300x"}


class RocmWorld(AmdWorld, WheelWorld):
    """One whose packages are wheels."""

    def _make_stores(self) -> None:
        self.apart = True

    def _make_repository(self) -> None:
        self._make_origin()
        files = {
            "ci/build.py": BUILD,
            "ci/build.sh": '#!/bin/sh -e\nexec "python$VARIANT_PYTHON" ci/build.py\n',
            "torch/__init__.py": (PACKAGES / "torch/__init__.py").read_text("utf-8"),
            ".gitignore": wheel.FILES[".gitignore"],
            ".github/ci-matrix.yaml": json.dumps(SPEC | {"toolkit": f"ci-compiler=={ci_compiler.__version__}"}),
        }
        for name, text in files.items():
            (self.clone / name).parent.mkdir(exist_ok=True)
            (self.clone / name).write_text(text, "utf-8")
        (self.clone / "ci/build.sh").chmod(0o755)
        wheel.interpreter(self.root / "python", own_pip=True)
        self._run(HERE / "bin/installed/ci-compile", at=self.clone)
        self.commit("Begin")
        self.git("push", "--quiet", "origin", "main")


class RecipeWorld(AmdWorld):
    """One whose packages are compiled recipes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, backend="nix", apart=True)

    def _make_stores(self) -> None:
        super()._make_stores()
        self.on("mi300x", require("nix-store"), "--init")

    def _make_repository(self) -> None:
        self._make_origin()
        pinned = {"nixpkgs": "fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3", "nixpkgs-hash": self.nixpkgs_hash["main"]}
        spec = OF_RECIPE | {
            "toolkit": f"ci-compiler=={ci_compiler.__version__}",
            "branches": {"main": {"versions": {"pytorch": "2.8.0"}, **pinned}},
            "cache": {"url": f"file://{self.cache}", "public-key": self.public_key},
        }
        (self.clone / ".github").mkdir()
        (self.clone / ".github/ci-matrix.yaml").write_text(json.dumps(spec), "utf-8")
        self.compile("main")
        self.commit("Begin")
        self.git("push", "--quiet", "origin", "main")


@pytest.fixture(scope="module")
def world(apart: bool) -> Iterator[RocmWorld]:
    if not apart:
        pytest.skip("this user may not make mount namespaces here: unshare --mount")
    yield from in_a_folder(RocmWorld)


@pytest.fixture(scope="module")
def sick(world: RocmWorld) -> Run:
    """A run while the GPU has errors that the driver counts."""
    world.plug_in(errors=3)
    return world.dispatch(FILE, "main", variant=NAME, publish="true")


def test_a_gpu_with_memory_errors_fails_the_gpu_test_in_words(sick: Run) -> None:
    assert sick.did(NAME)[-1] != "gpu-test smoke"
    assert "gpu-test doctor: 1" in sick.did(NAME)
    assert "3 uncorrectable errors in umc" in sick.log.said


def test_a_wheel_whose_gpu_test_failed_is_not_published(world: RocmWorld, sick: Run) -> None:
    assert {entry.job for entry in sick.journal} == {"preflight", "build", "cpu-test", "gpu-test"}
    assert not world.index.exists()


@pytest.fixture(scope="module")
def well(world: RocmWorld, sick: Run) -> Run:
    """A run after the GPU was reset."""
    assert sick.status != 0
    world.plug_in()
    return world.dispatch(FILE, "main", variant=NAME, publish="true")


def test_both_tests_run_after_the_build_and_publishing_after_both(well: Run) -> None:
    assert well.status == 0, well.log.said
    assert well.before(("build", NAME), ("cpu-test", NAME))
    assert well.before(("build", NAME), ("gpu-test", NAME))
    assert well.before(("cpu-test", NAME), ("publish", "-"))
    assert well.before(("gpu-test", NAME), ("publish", "-"))


def test_the_gpu_test_says_which_gpu_and_which_rocm_it_had(well: Run) -> None:
    found = {row["check"]: row["message"] for row in well.json(f"gpu-test-{NAME}", "result.json")["checks"]}
    assert found["machine-gpu"] == "GPU 0: AMD Instinct MI300X (gfx942)"
    assert found["machine-gpu-usable"] == "gfx942 through /dev/kfd"
    assert (found["toolkit"], found["architectures"], found["dnn"]) == ("7.1", "gfx942", "MIOpen 3005001")
    assert found["gpu"] == "AMD Instinct MI300X, gfx942:sramecc+:xnack-"


def test_what_was_tested_is_what_is_published(world: RocmWorld, well: Run) -> None:
    (wheel_file,) = world.index.iterdir()
    assert wheel_file.read_bytes() == (well.folder(f"build-{NAME}") / "files" / wheel_file.name).read_bytes()
    build, *tests = well.row(NAME)[:3]
    assert build == "passed"
    assert all(one.startswith("passed") for one in tests), tests


@pytest.fixture(scope="module")
def recipes(apart: bool) -> Iterator[RecipeWorld]:
    if not apart:
        pytest.skip("this user may not make mount namespaces here: unshare --mount")
    yield from in_a_folder(RecipeWorld)


def test_a_recipe_goes_from_its_spec_to_the_verdict(recipes: RecipeWorld) -> None:
    recipes.plug_in()
    run = recipes.dispatch(FILE_OF_RECIPE, "main", variant=RECIPE, publish="true")
    assert run.status == 0, run.log.said
    found = {row["check"]: row["message"] for row in run.json(f"gpu-test-{RECIPE}", "result.json")["checks"]}
    assert (found["toolkit"], found["architectures"]) == ("6.4", "gfx942")
    assert found["gpu"] == "AMD Instinct MI300X, gfx942:sramecc+:xnack-"
    assert recipes.signed(run.json(f"build-{RECIPE}", "manifest.json")["store_path"])
