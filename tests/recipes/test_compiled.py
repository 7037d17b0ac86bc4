"""The text of a compiled recipe, line by line: what each key of a package and a branch writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ci_compiler.recipes import compiled
from ci_compiler.recipes.compiled import description, head, imported, render, runs_on_lines
from ci_compiler.recipes.subject import Subject
from tests.recipes.subjects import TORCH, spec_for, subject_for
from tests.specs import HASH, PIN, SOURCE

GPU, ALL, CPU = (f"python313-{name}-avx2" for name in ("cuda13_0-sm90", "cuda13_0-all", "cpu"))
OUTER = {"attribute": "outer", "needs": ["mine"]}


def subject(
    package: dict[str, Any], suffix: str = CPU, *, name: str = "mine", main: dict[str, Any] | None = None, **more: Any
) -> Subject:
    """The subject of the package `mine`, or of one of `more` that is called `name`."""
    spec = spec_for({"mine": package, **more}, gpus=["cpu", "sm90", "all"], main={"cuda": "13.0", **(main or {})})
    return subject_for(spec, f"{name}-{suffix}")


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def assert_in(part: str, text: str) -> None:
    """Asserts that the lines of `part` follow each other in `text`, whatever their indentation."""
    wanted, there = lines(part), lines(text)
    assert any(there[at : at + len(wanted)] == wanted for at in range(len(there)))


CAPABILITIES = '"7.5" "8.0" "8.6" "8.9" "9.0" "10.0" "10.3" "12.0"'


@pytest.mark.parametrize(
    ("package", "suffix", "part"),
    [
        ({}, CPU, "config = {\nallowUnfree = true;\n};\n};"),
        ({}, GPU, "config = {\nallowUnfree = true;\ncudaSupport = true;\ncudaCapabilities = [ gpuArchSM ];\n};"),
        (TORCH, GPU, "config = {\nallowUnfree = true;\ncudaSupport = true;\n};"),
        ({"capabilities": True}, ALL, f"cudaCapabilities = [ {CAPABILITIES} ];"),
        ({}, GPU, '# The compute capability of sm90.\ngpuArchSM = "9.0";'),
        ({}, CPU, "inherit (pkgs) lib;\n\n# AVX2: Intel Haswell (2013), AMD Excavator (2015) or Zen (2017) and later."),
        ({}, CPU, 'cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ];\nin'),
        ({}, CPU, f'pname = "mine-{CPU}";'),
        ({}, CPU, 'passthru = (old.passthru or { }) // {\ngpuArch = null;\ncpuISA = "avx2";\n};'),
        ({}, GPU, 'gpuArch = "sm90";\ncpuISA = "avx2";'),
        ({}, CPU, 'description = "mine for CPUs with AVX2";'),
        ({"set": "python"}, CPU, "mine 1.0 for Python 3.13, built for one kind of hardware:\n- CPU: Intel"),
        ({"set": "top"}, CPU, "mine 1.0, built for one kind of hardware:\n- CPU: Intel"),
        ({}, CPU, "pkgs.python313Packages.mine.overrideAttrs (old: {"),
        ({"set": "top", "attribute": "a-b"}, CPU, "pkgs.a-b.overrideAttrs (old: {"),
        ({"arguments": {"a": True}}, CPU, "(pkgs.python313Packages.mine.override { a = true; }).overrideAttrs (old: {"),
        (
            {"arguments": {"a": 1, "with": "@isa@"}},
            CPU,
            '(pkgs.python313Packages.mine.override {\na = 1;\n"with" = "avx2";\n}).overrideAttrs (old: {',
        ),
        (
            {"arguments": {"a": {"b": "@pkgs.cudaPackages.x@"}}},
            CPU,
            "(pkgs.python313Packages.mine.override {\na = {\nb = pkgs.cudaPackages.x;\n};\n}).overrideAttrs (old: {",
        ),
        (
            {"arguments": {"gpu": {"targets": ["@capability@"]}}},
            GPU,
            "(pkgs.python313Packages.mine.override { targets = [ gpuArchSM ]; })",
        ),
        ({"arguments": {"gpu": {"targets": ["@capability@", "x"]}}}, ALL, f'targets = [ {CAPABILITIES} "x" ];'),
        ({"arguments": {"gpu": {"n": {"m": ["@sm@"]}}}}, ALL, 'm = [ "75" "80" "86" "89" "90" "100" "103" "120" ];'),
        ({"arguments": {"gpu": {"targets": ["@sm@"]}}}, GPU, '{ targets = [ "90" ]; }'),
        ({"arguments": {"gpu": {"one": "sm_@sm@"}}}, GPU, '{ one = "sm_90"; }'),
        (
            {"attributes": {"requiredSystemFeatures": ["kvm"]}},
            CPU,
            'requiredSystemFeatures = lib.unique ((old.requiredSystemFeatures or [ ]) ++ [ "kvm" ]);',
        ),
        ({"attributes": {"doCheck": False}}, CPU, "doCheck = false;"),
        (
            {"inputs": {"buildInputs": ["zlib", "lib_@isa@"]}},
            CPU,
            "buildInputs = (old.buildInputs or [ ]) ++ [ pkgs.zlib pkgs.lib_avx2 ];",
        ),
        ({"cmake-flags": ["-DA=@isa@"]}, CPU, 'cmakeFlags = (old.cmakeFlags or [ ]) ++ [ "-DA=avx2" ];'),
        ({"build-flags": ["-j", "@jobs@"]}, CPU, 'ninjaFlags = [ "-j" "32" ];'),
        ({"environment": {"A": "x y", "N": 2}}, CPU, "export MAX_JOBS=32\nexport A='x y'\nexport N=2\n# The lower of"),
        ({"environment": {"A": "${@isa@}"}}, CPU, "export A=''\\'''${avx2}'"),
        (
            {"overlays": ["nix/o.nix", ".flox/pkgs/p.nix"]},
            CPU,
            "overlays = [\n(import ../../nix/o.nix)\n(import ./p.nix)\n];",
        ),
    ],
)
def test_what_the_keys_of_a_package_write(package: dict[str, Any], suffix: str, part: str) -> None:
    assert part in "\n".join(lines(render(subject(package, suffix))))


def test_the_hooks_of_a_build_begin_with_those_of_nixpkgs() -> None:
    text = render(subject({"environment": {"A": "1"}}, GPU))
    assert_in(
        'preConfigure = (old.preConfigure or "") + "\\n" + \'\'\n'
        'export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"\n'
        'export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"\n'
        "# nvcc reads neither: this is for the host code of CUDA files. nixpkgs' hooks add to the same variable.",
        text,
    )
    assert "NVCC" not in render(subject({}, CPU))


PIECE = {"why": "for @isa@", "overlay": "final: prev: { }", "post-patch": "a @isa@", "pre-build": ["b", "c"]}
PIECE |= {"cmake": ["-DP=@isa@"], "exports": {"X": "@isa@"}, "pre-configure": "d", "packages": ["mine"]}


def test_a_piece_stands_after_its_reason() -> None:
    spec = spec_for(
        {"mine": {"cmake-flags": ["-DQ=1"]}}, main={"work-arounds": ["fix"]}, **{"work-arounds": {"fix": PIECE}}
    )
    text = render(subject_for(spec, f"mine-{CPU}"))
    for part in (
        "overlays = [\n# for avx2\nfinal: prev: { }\n];",
        "postPatch = (old.postPatch or \"\") + \"\\n\" + ''\n# for avx2\na avx2\n'';",
        "# for avx2\nexport X=avx2\nd\n'';",
        'preBuild = (old.preBuild or "") + "\\n" + \'\'\n# for avx2\nb\nc\n# arrived NAME',
        'cmakeFlags = (old.cmakeFlags or [ ]) ++ [ "-DP=avx2" "-DQ=1" ];',
    ):
        assert_in(part.removesuffix("\n# arrived NAME"), text)


def test_a_source_takes_the_place_of_nixpkgs_own() -> None:
    main = {"sources": {"mine": SOURCE}, "versions": {"mine": "2.0"}, "allow-broken": True}
    text = render(subject({}, main=main))
    assert_in('version = "2.0";\n\nsrc = pkgs.fetchFromGitHub {\nowner = "o";\nrepo = "r";\ntag = "v1";', text)
    assert_in("patches = [ ];", text)
    assert_in('platforms = [ "x86_64-linux" ];\nbroken = false;\n};', text)
    assert "src =" not in render(subject({})), "nixpkgs' own"
    assert "broken" not in render(subject({}))
    assert "\n  patches =" not in render(subject({**TORCH}, main=main)), "an overlay replaces it"


def test_what_a_recipe_says_of_itself() -> None:
    gpu, cpu = subject({"title": "Mine"}, GPU), subject({"title": "Mine"})
    assert head(cpu) == [
        "# Compiled by ci-compile from ci-matrix.yaml. Do not edit: change the spec, then run `ci-compile recipes`.",
        "# Mine 1.0 for x86-64 CPUs with AVX2.",
    ]
    assert head(gpu)[1] == "# Mine 1.0 for NVIDIA Hopper (sm90: H100, H200, H20, GH200) and x86-64 CPUs with AVX2."
    assert description(gpu) == "Mine for NVIDIA Hopper (sm90) and CPUs with AVX2"
    assert list(runs_on_lines(gpu)) == [
        "GPU: H100, H200, H20, GH200 (compute capability 9.0)",
        "CUDA 13.0, NVIDIA driver 580 or newer",
        f"CPU: {gpu.isa.cpus}",
    ]
    assert list(runs_on_lines(cpu)) == [f"CPU: {cpu.isa.cpus}"]
    assert render(cpu).startswith("\n".join([*head(cpu), "", "{ ... }:", "", "let", "  nixpkgs = builtins"]))
    url = f"https://github.com/NixOS/nixpkgs/archive/{PIN}.tar.gz"
    fetched = f'builtins.fetchTarball {{\nurl = "{url}";\nsha256 = "{HASH}";\n}};'
    assert_in(f'let\nnixpkgs = {fetched}\n\npkgs = import nixpkgs {{\nsystem = "x86_64-linux";', render(cpu))


WHY = "# The mine of this very cell: the derivation that its own recipe builds."


def test_a_needed_package_is_that_of_its_own_recipe() -> None:
    plain = render(subject({}, GPU, name="outer", outer=OUTER))
    assert_in(f"{WHY}\nmine = import ./mine-{GPU}.nix {{ }};", plain)
    assert "(pkgs.python313Packages.outer.override { inherit mine; }).overrideAttrs (old: {" in plain
    assert "propagatedBuildInputs" not in plain
    torch = render(subject({**TORCH}, GPU, name="outer", outer=OUTER | {"inputs": {"propagatedBuildInputs": ["x"]}}))
    assert_in("propagatedBuildInputs = (old.propagatedBuildInputs or [ ]) ++ [ torch.out pkgs.x ];", torch)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("python", f"mine = import ./mine-{GPU}.nix {{ }};\nouter = pprev.outer.overrideAttrs (old: {{"),
        ("top", "(final: prev: {\nouter = prev.outer.overrideAttrs (old: {"),
    ],
)
def test_a_package_in_its_set_brings_what_it_needs_there(kind: str, part: str) -> None:
    text = render(subject({}, GPU, name="outer", outer=OUTER | {"at": "set", "set": kind}))
    assert_in(part, text)
    assert_in("(final: prev: {\npythonPackagesExtensions = prev.pythonPackagesExtensions ++ [\n(pfinal: pprev: {", text)
    assert_in("})\n];\n})\n];\n};", text)
    assert text.endswith(f"in\npkgs.{'python313Packages.' * (kind == 'python')}outer\n")


def test_a_package_in_its_set_propagates_the_member_of_the_set() -> None:
    text = render(subject({**TORCH}, GPU, name="outer", outer=OUTER | {"at": "set"}))
    assert_in("propagatedBuildInputs = (old.propagatedBuildInputs or [ ]) ++ [ pfinal.torch.out ];", text)


def test_a_package_of_another_repository_is_imported_from_its_archive() -> None:
    elsewhere = {"name": "o/build-mine", "rev": {"main": "b" * 40}, "hash": {"main": HASH}}
    one = subject({"repository": elsewhere}, GPU, name="outer", outer=OUTER)
    assert imported(one, "mine") == (
        "import ((builtins.fetchTarball {\n"
        f'  url = "https://github.com/o/build-mine/archive/{"b" * 40}.tar.gz";\n  sha256 = "{HASH}";\n'
        f'}}) + "/.flox/pkgs/mine-{GPU}.nix") {{ }}'
    )


def test_a_shared_text_takes_what_differs_from_its_callers() -> None:
    one = replace(subject({"overlays": ["nix/o.nix"]}, GPU, name="outer", outer=OUTER), is_shared=True)
    text = "\n".join(compiled.expression(one))
    assert_in(f"{WHY}\nmine = needs.mine;", text)
    assert "gpuArchSM =" not in text
    assert "cpuFlags =" not in text
    assert_in("description = description;", text)
    assert_in('${lib.concatMapStringsSep "\\n" (line: "- ${line}") runsOn}', text)
    shared = replace(subject({"overlays": ["nix/o.nix"]}), is_shared=True)
    assert_in("(import ../../nix/o.nix)", "\n".join(compiled.expression(shared)))
