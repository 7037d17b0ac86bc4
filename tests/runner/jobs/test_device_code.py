"""What a build has of code for GPUs is read in its files, and compared with its variant."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.plan.lookup import BuiltVariant, built_variants
from ci_compiler.plan.pipeline import plan
from ci_compiler.runner.jobs.device_code import Compared, compared
from ci_compiler.spec.build import parse_spec

COMMAND = {"build": "b", "files": ["dist/*"], "install": "i", "publish": "p"}
FEATURES = {"": 0, "a": 1 << 20, "f": 1 << 21}
ZSTD = 1 << 15


def fat(*entries: str, compressed: int = 0) -> bytes:
    """A library with a fat binary: `sm_90a` is a cubin and `ptx_90` PTX; `compressed` is the flag of a compression."""
    rows = b""
    for kind, _, arch in (one.partition("_") for one in entries):
        flags = FEATURES[arch.lstrip("0123456789")] | compressed | 0x11
        number, payload = int(arch.rstrip("af")), 40
        header = struct.pack("<HHIQIIHHI8xQ", {"ptx": 1, "sm": 2}[kind], 257, 64, payload, 0, 0, 0, 9, number, flags)
        rows += header.ljust(64, b"\0") + b"\x28\xb5\x2f\xfd".ljust(payload, b"\1")
    return b"\x7fELF" + b"\0" * 300 + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(rows)) + rows + b"rest"


def stated(version: str) -> bytes:
    """The note of a compiler of CUDA 13 in a cubin."""
    release = ".".join(version.split(".")[:2])
    return f"\0Cuda compilation tools, release {release}, V{version}\0Build\0".encode()


def header(number: int, arch: int) -> bytes:
    """The header of a cubin of CUDA 12 and older, which has the version of the toolkit (128) and the architecture."""
    start = b"\x7fELF\x02\x01\x01\x33\x07".ljust(16, b"\0") + struct.pack("<HHI", 2, 190, number)
    return start.ljust(48, b"\0") + struct.pack("<I", 0x500500 | arch)


def bundle(*targets: str, kind: str = "hipv4-amdgcn") -> bytes:
    """A bundle of code objects for AMD's GPUs (LLVM, "Clang Offload Bundler")."""
    names = [f"{kind}-amd-amdhsa--{one}".encode() for one in targets]
    entries = b"".join(struct.pack("<QQQ", 4096, 0, len(name)) + name for name in names)
    return b"\x7fELF" + b"\0" * 60 + b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)) + entries


def archived(**files: bytes) -> bytes:
    """A zip archive; `__` in a name is a slash, and `_so` a suffix."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/").replace("_so", ".so"), content)
    return out.getvalue()


def tarred(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        row = tarfile.TarInfo(name)
        row.size = len(content)
        archive.addfile(row, io.BytesIO(content))
    return out.getvalue()


def variant(accelerator: str, **keys: Any) -> BuiltVariant:
    """The variant for an accelerator; `keys` are those of its spec."""
    spec: dict[str, Any] = {
        "version": 1,
        "owner": "my-org",
        "backend": "command",
        "branches": {"main": {"versions": {"ext": "1.0"}}},
        "packages": {"ext": {"command": COMMAND}},
        "names": "{platform}",
        "matrix": {"values": {"platform": "x86_64-linux", "accelerator": [accelerator]}},
        "runners": {"builder": {"runs-on": ["self-hosted", "x64", "builder"]}},
        "publish": {"on-shared-machines": True},
        **keys,
    }
    (built,) = built_variants(plan(parse_spec(json.dumps(spec).encode(), shown="spec.json")))
    return built


DECLARED = {"hardware": {"families": {"opencl": {"title": "OpenCL"}, "gl": {"title": "OpenGL", "targets": []}}}}


def read(folder: Path, accelerator: str, files: dict[str, bytes], **keys: Any) -> Compared:
    """What is read of the files of a build of that variant."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return compared(variant(accelerator, **keys), [folder / name for name in files])


NVCC = stated("12.8.93")
ALONE = "PTX alone: compiled by the driver when first used"


@pytest.mark.parametrize(
    ("target", "code", "architectures"),
    [
        ("sm90", ["sm_90"], ["sm_90"]),
        ("sm90", ["sm_90", "ptx_90"], ["sm_90", "PTX sm_90"]),
        ("sm90", ["sm_90", "ptx_80"], ["sm_90", "PTX sm_80"]),
        ("sm90", ["sm_90a"], ["sm_90a"]),  # the same GPUs
        ("sm90a", ["sm_90a"], ["sm_90a"]),
        ("sm100f", ["sm_100f"], ["sm_100f"]),
        ("sm100", ["sm_100", "sm_100a"], ["sm_100", "sm_100a"]),
        ("sm90+ptx", ["sm_90", "ptx_90"], ["sm_90", "PTX sm_90"]),
        ("sm80,sm90", ["sm_80", "sm_90"], ["sm_80", "sm_90"]),
        ("", ["sm_70", "sm_120", "ptx_120"], ["sm_70", "sm_120", "PTX sm_120"]),
        ("all", ["sm_70", "sm_120"], ["sm_70", "sm_120"]),
    ],
)
@pytest.mark.parametrize("compressed", [0, ZSTD])
def test_code_for_the_declared_targets_is_right(
    tmp_path: Path, target: str, code: list[str], architectures: list[str], compressed: int
) -> None:
    found = read(tmp_path, f"cuda 12.8 {target}".strip(), {"ext.so": fat(*code, compressed=compressed) + NVCC})
    assert found == Compared(architectures=tuple(architectures), compilers=("nvcc 12.8.93",))


@pytest.mark.parametrize(
    ("accelerator", "code", "architectures"),
    [
        ("cuda 12.8 sm90", fat("sm_70", "sm_120") + NVCC, {"sm_70", "sm_120"}),
        ("rocm 7.1 gfx942", bundle("gfx942", "gfx1100"), {"gfx942", "gfx1100"}),
    ],
)
def test_a_package_that_ignores_targets_may_have_code_for_any(
    tmp_path: Path, accelerator: str, code: bytes, architectures: set[str]
) -> None:
    found = read(tmp_path, accelerator, {"ext.so": code}, packages={"ext": {"command": COMMAND, "ignores": ["target"]}})
    assert ({*found.architectures}, found.wrong) == (architectures, ())


@pytest.mark.parametrize(
    ("target", "code", "wrong"),
    [
        ("sm90", ["sm_80"], ["ext.so has code for sm_80 (CUDA)", "nothing is compiled for sm90"]),
        ("sm86", ["sm_80"], ["ext.so has code for sm_80 (CUDA)", "nothing is compiled for sm86"]),
        ("sm90", ["sm_80", "sm_90"], ["ext.so has code for sm_80 (CUDA), and the variant is for sm90"]),
        ("sm90", ["sm_90", "ptx_100"], ["ext.so has code for PTX sm_100 (CUDA)"]),
        ("sm80", ["ptx_90"], ["ext.so has code for PTX sm_90 (CUDA)", "nothing is compiled for sm80"]),
        ("sm100f", ["sm_100a"], ["nothing is compiled for sm100f; there is code for sm_100a"]),
        ("sm100", ["sm_100a"], ["nothing is compiled for sm100; there is code for sm_100a"]),
        ("sm80,sm90", ["sm_80"], ["nothing is compiled for sm90; there is code for sm_80"]),
        ("sm90+ptx", ["sm_90"], ["there is no PTX for sm90+ptx; there is code for sm_90"]),
        ("sm90+ptx", ["sm_90", "ptx_80"], ["there is no PTX for sm90+ptx"]),
    ],
)
@pytest.mark.parametrize("compressed", [0, ZSTD])
def test_foreign_code_and_code_that_is_missing_are_wrong(
    tmp_path: Path, target: str, code: list[str], wrong: list[str], compressed: int
) -> None:
    found = read(tmp_path, f"cuda 12.8 {target}", {"ext.so": fat(*code, compressed=compressed) + NVCC})
    assert [one[: len(of)] for one, of in zip(found.wrong, wrong, strict=True)] == wrong


@pytest.mark.parametrize(
    ("target", "code", "names"),
    [
        ("sm90", ["ptx_90"], "sm90"),
        ("sm90", ["ptx_70"], "sm90"),
        ("sm90a", ["ptx_90a"], "sm90a"),
        ("sm90+ptx", ["ptx_90"], "sm90"),
        ("sm80,sm90", ["sm_80", "ptx_80"], "sm90"),
        ("sm80,sm90", ["ptx_80"], "sm80, sm90"),
    ],
)
def test_ptx_alone_is_said(tmp_path: Path, target: str, code: list[str], names: str) -> None:
    found = read(tmp_path, f"cuda 12.8 {target}", {"ext.so": fat(*code, compressed=ZSTD) + NVCC})
    assert (found.wrong, found.remarks) == ((), (f"{ALONE} ({names})",))
    assert found.runs == f"compiles code for {names} when it is first used: PTX alone was built"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ext-1.0-py3-none-any.whl", archived(ext__k_so=fat("sm_80"))),
        ("ext.tar.gz", gzip.compress(mtime=0, data=tarred("ext/k.so", fat("sm_80")))),
        ("ext.tar.bz2", bz2.compress(tarred("ext/k.so", fat("sm_80")))),
        ("ext.tar.xz", lzma.compress(tarred("ext/k.so", fat("sm_80")))),
        (
            "ext.tar",
            tarred("blobs/layer", gzip.compress(mtime=0, data=tarred("ext.whl", archived(ext__k_so=fat("sm_80"))))),
        ),
        ("k.so.gz", gzip.compress(mtime=0, data=fat("sm_80"))),
        ("k.a", b"!<arch>\n" + fat("sm_80")),
        ("k.cubin", header(128, 80)),
        ("k.ptx", b"//\n// Generated\n\n.version 9.0\n.target sm_100a\n.address_size 64\n"),
    ],
)
def test_code_is_found_wherever_it_is(tmp_path: Path, name: str, content: bytes) -> None:
    found = read(tmp_path, "cuda 12.8 sm90", {name: content, "empty": b"", "notes.txt": b"text"})
    assert found.wrong[0].startswith(f"{name}")
    assert "and the variant is for sm90" in found.wrong[0]


def test_every_file_of_a_folder_is_read_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.so").write_bytes(fat("sm_70"))
    home = tmp_path / "output/lib"
    home.mkdir(parents=True)
    (home / "k.so").write_bytes(fat("sm_90"))
    (home / "linked.so").symlink_to(tmp_path / "elsewhere.so")
    assert compared(variant("cuda 12.8 sm90"), [tmp_path / "output"]).architectures == ("sm_90",)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data.tar.zst", b"\x28\xb5\x2f\xfd data"),
        ("ext.deb", b"!<arch>\ndebian-binary   "),
        ("ext.conda", archived(**{"pkg.tar.zst": b"\x28\xb5\x2f\xfd data"})),
        ("damaged.whl", archived(ext__k_so=fat("sm_90"))[:150]),
        ("damaged.tar.gz", gzip.compress(mtime=0, data=tarred("k.so", fat("sm_90")))[:60]),
        ("damaged.tar", tarred("k.so", fat("sm_90"))[:600]),
    ],
)
def test_what_is_not_read_is_said_and_hides_nothing_else(tmp_path: Path, name: str, content: bytes) -> None:
    found = read(tmp_path, "cuda 12.8 sm90", {name: content, "k.whl": archived(a=content, k_so=fat("sm_80"))})
    assert found.wrong == ("k.whl/k.so has code for sm_80 (CUDA), and the variant is for sm90",)
    assert [one for one in found.remarks if one.startswith("not read: ") and name in one]
    assert "nothing is compiled for sm90; there is code for sm_80" in found.remarks  # it may be in what is not read


def test_a_build_for_the_cpu_or_another_family_has_no_such_code(tmp_path: Path) -> None:
    files = {"ext.so": fat("sm_80"), "hip.so": bundle("gfx942")}
    assert read(tmp_path, "cpu", files).wrong == (
        "ext.so has code for sm_80 (CUDA), and the variant is for cpu",
        "hip.so has code for gfx942 (ROCm), and the variant is for cpu",
    )
    assert read(tmp_path, "rocm 7.1 gfx942", files).wrong == (
        "ext.so has code for sm_80 (CUDA), and the variant is for gfx942",
    )
    assert read(tmp_path, "gl", files, **DECLARED).wrong[0].endswith("(CUDA), and the variant is for gl")
    assert read(tmp_path, "cpu", {"ext.so": b"\x7fELF"}) == Compared()


def test_a_package_that_states_no_accelerator_may_have_any_code(tmp_path: Path) -> None:
    ignoring = {"packages": {"ext": {"command": COMMAND, "ignores": ["accelerator"]}}}
    files = {"ext.so": fat("sm_80", "ptx_80") + NVCC, "hip.so": bundle("gfx942")}
    assert read(tmp_path, "cuda 12.8 sm90", files, **ignoring) == Compared(
        architectures=("sm_80", "PTX sm_80", "gfx942"), compilers=("nvcc 12.8.93",)
    )


@pytest.mark.parametrize(
    ("target", "code", "wrong"),
    [
        ("gfx942", bundle("gfx942"), 0),
        ("gfx942", bundle("gfx942:sramecc+:xnack-", kind="hip-amdgcn"), 0),
        ("gfx942,gfx1100", bundle("gfx942", "gfx1100"), 0),
        ("gfx942", bundle("gfx90a"), 2),
        ("gfx942", bundle("gfx942", "gfx90a"), 1),
        ("gfx942,gfx1100", bundle("gfx942"), 1),
    ],
)
def test_code_objects_are_compared_in_the_same_way(tmp_path: Path, target: str, code: bytes, wrong: int) -> None:
    assert len(read(tmp_path, f"rocm 7.1 {target}", {"hip.so": code}).wrong) == wrong


def test_spir_v_alone_is_said(tmp_path: Path) -> None:
    found = read(tmp_path, "rocm 7.1 gfx942", {"hip.so": bundle("amdgcnspirv", kind="hip-spirv64")})
    assert found.wrong == ()
    assert found.remarks[0] == "SPIR-V alone: compiled by the driver when first used (gfx942)"


@pytest.mark.parametrize("code", [b"\x7fELF .hip_fatbin CCOB", b"\x7fELF".ljust(18, b"\0") + b"\xe0\0"])
def test_code_objects_whose_targets_are_not_read_are_said(tmp_path: Path, code: bytes) -> None:
    found = read(tmp_path, "rocm 7.1 gfx942", {"hip.so": code})
    assert (found.wrong, found.architectures) == ((), ())
    assert found.remarks[-1] == "not read: 1 file (hip.so may have code whose targets are not read)"
    assert found.runs == "can run code built for gfx942, of which none was read"


def test_a_family_without_a_reader_says_that_nothing_was_read(tmp_path: Path) -> None:
    found = read(tmp_path, "opencl 3.0 adreno", {"ext.so": b"\x7fELF"}, **DECLARED)
    assert found.remarks == ("nothing was read of its code for OpenCL: no reader is known",)
    assert found.runs == "can run code built for adreno, of which none was read"
    assert read(tmp_path, "gl", {"ext.so": b"\x7fELF"}, **DECLARED) == Compared()


def test_a_build_without_any_code_says_so(tmp_path: Path) -> None:
    found = read(tmp_path, "cuda 12.8 sm90", {"ext.whl": archived(**{"ext.py": b"pass"})})
    assert found.remarks == ("no code for CUDA was read in 2 files",)
    assert found.runs == "can run code built for sm90, of which none was read"


def test_the_vendors_libraries_are_named_and_not_compared(tmp_path: Path) -> None:
    many = fat("sm_70", "sm_90", "ptx_120")
    names = ("ext.libs/libnccl-1a2b.so.2", "torch/lib/libcudnn_adv.so.9", "cublas64_12.dll", "lib/libcublasLt.so.12")
    wheel = archived(**{"ext/k.so": fat("sm_90") + NVCC, **dict.fromkeys(names, many)})
    found = read(tmp_path, "cuda 12.8 sm90", {"ext.whl": wheel})
    shown = ", ".join(f"ext.whl/{name}" for name in names)
    assert found == Compared(
        architectures=("sm_90",),
        compilers=("nvcc 12.8.93",),
        remarks=(f"the vendor's, not compared: 4 files ({shown})",),
    )
    assert len(read(tmp_path, "cpu", {"ext.whl": wheel}).wrong) == 5  # a build for the CPU has no use for them
    own = archived(**{"ext.libs/libkernels-1a2b.so": many})  # of no vendor: its own, which a tool moved there
    assert len(read(tmp_path, "cuda 12.8 sm90", {"ext.whl": own}).wrong) == 1
    nccl = {"packages": {"nccl": {"command": COMMAND}}, "branches": {"main": {"versions": {"nccl": "1"}}}}
    assert len(read(tmp_path, "cuda 12.8 sm90", {"libnccl.so.2": many}, **nccl).wrong) == 1


def test_a_setting_allows_what_libraries_bring_that_are_linked_into_it(tmp_path: Path) -> None:
    files, settings = {"ext.so": fat("sm_70", "sm_90") + NVCC}, {"settings": {"machine-code": "also"}}
    found = read(tmp_path, "cuda 12.8 sm90", files, **settings)
    assert (found.wrong, found.remarks) == ((), ("ext.so has code for sm_70 (CUDA), and the variant is for sm90",))
    assert read(tmp_path, "cpu", files, **settings).wrong
    assert read(tmp_path, "cuda 12.8 sm80", files, **settings).wrong == (
        "nothing is compiled for sm80; there is code for sm_70, sm_90",
    )


def test_a_label_stands_for_the_targets_that_it_serves(tmp_path: Path) -> None:
    axes = {
        "axes": {"target": {"serves": {"servers": ["sm80", "sm90"]}}},
        "accelerators": {"cuda": {"toolkits": ["12.8"], "targets": ["servers"]}},
    }
    assert read(tmp_path, "cuda", {"ext.so": fat("sm_80", "sm_90") + NVCC}, **axes).wrong == ()
    assert read(tmp_path, "cuda", {"ext.so": fat("sm_80", "sm_75") + NVCC}, **axes).wrong == (
        "ext.so has code for sm_75 (CUDA), and the variant is for servers",
        "nothing is compiled for sm90; there is code for sm_75, sm_80",
    )


@pytest.mark.parametrize(
    ("toolkit", "compiler", "keys", "is_right"),
    [
        ("12.8", stated("12.8.61"), {}, True),
        ("12.8", header(128, 90), {}, True),
        ("12.8", stated("12.8.61") + stated("12.9.86"), {}, True),  # of a library that is linked into it
        ("12.8", b"", {}, True),
        ("", stated("13.0.88"), {}, True),
        ("13", stated("13.0.88"), {}, True),
        ("13.x", stated("13.1.80"), {"axes": {"toolkit": {"serves": {"13.x": ["13.0", "13.1"]}}}}, True),
        ("13", stated("13.0.88"), {"settings": {"toolkit-version": "13.0.1"}}, True),
        ("12.8", stated("13.0.88"), {}, False),
        ("12.8", header(126, 90), {}, False),
        ("12.8", stated("12.80.1"), {}, False),
        ("13.x", stated("13.2.80"), {"axes": {"toolkit": {"serves": {"13.x": ["13.0", "13.1"]}}}}, False),
        ("13", stated("13.0.88"), {"settings": {"toolkit-version": "13.1.1"}}, False),
        ("13", stated("13.0.88"), {"settings": {"cuda-version": "13.1.1"}}, False),
    ],
)
def test_the_compiler_is_of_the_variants_toolkit(
    tmp_path: Path, toolkit: str, compiler: bytes, keys: dict[str, Any], is_right: bool
) -> None:
    accelerator = " ".join(filter(None, ["cuda", toolkit, "sm90"]))
    found = read(tmp_path, accelerator, {"ext.so": fat("sm_90") + compiler}, **keys)
    assert [one.partition(" is compiled by ")[0] for one in found.wrong] == ([] if is_right else ["ext.so"])
    if not compiler:
        assert found.remarks == ("no compiler was read in its code for GPUs, which is compressed or does not state it",)
