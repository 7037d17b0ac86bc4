"""Compiler seeds: a small fleet, built by Nix with a real compiler and ccache, and what must not be taken from a seed.

`seedable/` is a nixpkgs with one package, whose host code is the same for every GPU but for one file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.backends.forms import path_name
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.hardware import tables
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.rules import judge
from ci_compiler.recipes import seeds
from ci_compiler.recipes.render import recipes
from ci_compiler.recipes.subject import Subject
from ci_compiler.reports.diff import diff
from ci_compiler.reports.forecast import forecast
from ci_compiler.reports.load import load_of
from ci_compiler.spec.model import Spec
from ci_compiler.variant import is_seed, seed_name
from ci_compiler.workflows.render import render
from tests.checkers import require
from tests.loops import each
from tests.output import checked
from tests.recipes.subjects import subject_for
from tests.recipes.test_affected import Repository, affected
from tests.recipes.test_build_proof import EXPRESSION
from tests.specs import MAIN, small, spec_of

SEEDABLE = Path(__file__).parent / "seedable"
SHELL = Path(__file__).parents[2] / "ci_compiler/recipes/shell"
MANY, FEW = 20, 2
"""The host files of an engine that are the same for every GPU; one more is not."""
TAKEN = re.compile(r"ci-compiler: the compiler seed had (\d+) of (\d+) host objects")
TAKE = "compiler_seed ${pkgs.ccache}/bin/ccache ${compilerSeed}"
RANDOM = 'NIX_OUTPATH_USED_AS_RANDOM_SEED = "engine";'

MORE_BY_ONE = bytes((byte + 1) % 256 for byte in range(256))
LESS_BY_ONE = bytes((byte - 1) % 256 for byte in range(256))

Replaced = tuple[str, str]


def document(gpus: Sequence[str], **keys: Any) -> dict[str, Any]:
    engine = {"set": "top", "capabilities": False, "arguments": {"gpu": {"targets": ["@gpu@"]}}}
    return small(
        packages={"engine": engine | {"compiler-seed": True} | keys},
        branches={"main": MAIN | {"versions": {"engine": "1.0"}}},
        matrix={
            "python": ["3.13"],
            "isas": {"x86_64-linux": ["avx2", "avx512"]},
            "gpus": {gpu: {} for gpu in ("cpu", *gpus)},
        },
    )


def spec_with(gpus: Sequence[str], **keys: Any) -> Spec:
    return spec_of(document(gpus, **keys))


def compiled(spec: Spec) -> dict[str, str]:
    """The recipes of `spec`, by the GPU and ISA of their variant."""
    texts = recipes(spec, judge(spec), "main", self_contained=True)
    return {path.split("-", 2)[2].removesuffix(".nix"): text for path, text in texts.items() if path.endswith(".nix")}


class Fleet:
    """Builds variants of the engine with nix-build, in a store of its own."""

    def __init__(self, folder: Path, files: int) -> None:
        self.folder, self.nix, ccache = folder, require("nix-build"), require("ccache")
        for tool in ("c++", "ar", "awk", "tar"):
            require(tool)
        shutil.copytree(SEEDABLE, folder / "nixpkgs")
        source = folder / "nixpkgs/source"
        source.mkdir()
        for number in range(files):
            text = f"#ifdef __AVX512F__\nint f{number} = 512;\n#else\nint f{number} = {number};\n#endif\n"
            (source / f"host{number}.cpp").write_text(text, "utf-8")
        other = folder / "nixpkgs/other"
        shutil.copytree(SEEDABLE / "wrapper", other)
        text = (other / "bin/c++").read_text("utf-8")
        same_size = text.replace("compiler's", "").replace("exec c++", "exec c++ -mavx512f")
        assert len(same_size) == len(text)
        (other / "bin/c++").write_text(same_size, "utf-8")
        (source / "targets.cpp").write_text('#include "targets.h"\nextern const char *const t = TARGETS;\n', "utf-8")
        folders = {"STORE": "store", "STATE": "var/nix", "LOG": "var/log", "CONF": "etc"}
        self.env = os.environ | {f"NIX_{name}_DIR": str(folder / "nix" / part) for name, part in folders.items()}
        self.env |= {"NIX_REMOTE": "", "NIX_CONFIG": "build-users-group =\nsandbox = false\nsubstituters =\n"}
        self.env |= {"CCACHE_OF_THE_TEST": str(Path(ccache or "").parents[1])}

    def build(self, name: str, *replaced: Replaced, guard: Replaced = ("", "")) -> subprocess.CompletedProcess[str]:
        """Builds the variant `name` after texts of its recipe, or of the package set, were replaced.

        `guard` is replaced in every recipe.
        """
        made = recipes(SPEC, judge(SPEC), "main", self_contained=True)
        texts = {self.folder / path: text.replace(*guard) if guard[0] else text for path, text in made.items()}
        mine = self.folder / f".flox/pkgs/engine-python313-cuda12_8-{name}.nix"
        others = {path: path.read_text("utf-8") for path in (self.folder / "nixpkgs").rglob("*") if path.is_file()}
        changed = {mine: texts[mine]} | others
        for old, new in replaced:
            assert any(old in text for text in changed.values()), old
            changed = {path: text.replace(old, new) for path, text in changed.items()}
        expression = self.folder / "build.nix"
        for path, text in {**texts, **changed, expression: EXPRESSION}.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        try:
            command = [self.nix, "--no-out-link", str(expression), "--arg", "recipe", str(mine)]
            command += ["--arg", "nixpkgs", str(self.folder / "nixpkgs")]
            return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)
        finally:
            for path, text in others.items():
                path.write_text(text, "utf-8")

    def built(self, name: str, *replaced: Replaced, guard: Replaced = ("", "")) -> tuple[Path, tuple[int, int]]:
        """The output, and how many host objects of how many came from the seed."""
        done = self.build(name, *replaced, guard=guard)
        assert done.returncode == 0, done.stderr
        match = TAKEN.search(done.stderr)
        return Path(done.stdout.strip()), (int(match[1]), int(match[2])) if match else (0, 0)

    def store(self, *arguments: str | Path) -> list[str]:
        command = ["nix-store", *map(str, arguments)]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=True).stdout.split()

    def seed(self, output: Path) -> Path:
        """The seed that the build of `output` took."""
        inputs = self.store("-q", "--requisites", *self.store("-q", "--deriver", output))
        return Path(
            *self.store("-q", "--outputs", *(path for path in inputs if path.endswith("compiler-seed-1.0.drv")))
        )

    # A binary cache in the folder `cache` of a folder, and its key beside it.

    def publish(self, path: Path, content: Path, folder: Path) -> None:
        """Makes a cache that has `content` as the store path `path`, which has no references, without a signature."""
        archive = folder / "cache/nar/forged.nar"
        archive.parent.mkdir(parents=True)
        with archive.open("wb") as file:
            subprocess.run(["nix-store", "--dump", str(content)], env=self.env, stdout=file, check=True)
        (folder / "cache/nix-cache-info").write_text(f"StoreDir: {path.parent}\n", "utf-8")
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        entry = f"StorePath: {path}\nURL: nar/{archive.name}\nCompression: none\nNarHash: sha256:{digest}\n"
        entry += f"FileHash: sha256:{digest}\nNarSize: {archive.stat().st_size}\nReferences: \n"
        (folder / f"cache/{path.name[:32]}.narinfo").write_text(entry, "utf-8")
        self.store("--generate-binary-cache-key", "fleet-1", folder / "key", folder / "public")

    def _nix(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs `nix`, which trusts the key."""
        config = f"{self.env['NIX_CONFIG']}experimental-features = nix-command\nnarinfo-cache-positive-ttl = 0\n"
        config += f"trusted-public-keys = {(folder / 'public').read_text('utf-8')}\n"
        env = self.env | {"NIX_CONFIG": config, "HOME": str(folder)}
        return subprocess.run(["nix", *arguments], env=env, capture_output=True, text=True, check=False)

    def sign(self, path: Path, folder: Path) -> None:
        """Signs what the cache has as `path`."""
        done = self._nix(
            folder, "store", "sign", "--store", f"file://{folder}/cache", "--key-file", f"{folder}/key", str(path)
        )
        assert done.returncode == 0, done.stderr

    def copy(self, path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
        """Copies `path` from the cache to the store."""
        return self._nix(folder, "copy", "--from", f"file://{folder}/cache", str(path))


SPEC = spec_with(["sm80", "sm90"])


FIRST, SECOND = (f"engine-python313-cuda12_8-{gpu}-avx2" for gpu in ("sm80", "sm90"))


@pytest.mark.parametrize(
    ("gpus", "keys", "seeders"),
    [
        (["sm80", "sm90"], {}, {"cpu": "", "sm80": "sm80", "sm90": "sm80"}),
        (["sm90"], {}, {"cpu": "", "sm90": ""}),
        (["sm80", "sm90", "sm100"], {"recipes": {"*-sm80-*": "own"}}, {"sm80": "", "sm90": "sm90", "sm100": "sm90"}),
        (["sm80", "sm90"], {"recipes": {"*-sm80-*": "own"}}, {"sm80": "", "sm90": ""}),
        (["sm80", "sm90"], {"compiler-seed": False}, {"sm80": "", "sm90": ""}),
        (["sm80", "sm90"], {"capabilities": True}, {"sm80": "", "sm90": ""}),
    ],
)
def test_the_first_of_several_variants_with_the_same_host_code_makes_the_seed(
    gpus: list[str], keys: dict[str, Any], seeders: dict[str, str]
) -> None:
    spec = spec_with(gpus, **keys)
    cells = judge(spec).cells
    for cell in each(cells):
        if cell.target in seeders:
            found = seeds.seeder_of(spec, cells, cell, "engine")
            assert (found.target if found else "") == seeders[cell.target]
            assert found is None or found.isa == cell.isa


def taking(name: str, *, shared: bool = False) -> Subject:
    """The subject of a variant that takes the seed of the first one, or of the text that such ones share."""
    return replace(subject_for(SPEC, name), seeded_by=FIRST, is_shared=shared)


CALL = "compiler_seed ${pkgs.ccache}/bin/ccache ${compilerSeed}"
GUARDED = f'${{if forSeed then "" else "{CALL}"}}'
IMPORT = f"import ./{FIRST}.nix {{ forSeed = true; }}"


@pytest.mark.parametrize(
    ("subject", "head", "arguments", "call"),
    [
        (taking(FIRST), "{ forSeed ? false, ... }:", ["inherit forSeed;"], GUARDED),
        (taking(SECOND), "{ ... }:", [], CALL),
        (taking(SECOND, shared=True), "{ ... }:", [], GUARDED),
    ],
)
def test_a_recipe_takes_the_seed_and_that_of_the_first_variant_can_make_it(
    subject: Subject, head: str, arguments: list[str], call: str
) -> None:
    assert seeds.head(subject) == head
    given = [f"seedFrom = {IMPORT};", f'seedName = "{seed_name(FIRST)}";']
    assert list(seeds.arguments(subject)) == [*arguments, *given]
    assert seeds.parameters(subject) == {"forSeed": "false", "seedFrom": "", "seedName": ""}
    assert seeds.attributes(subject) == {"NIX_OUTPATH_USED_AS_RANDOM_SEED": '"engine"'}
    [text] = seeds.before_configure(subject)
    assert text.splitlines()[-1] == call
    assert list(seeds.at_the_end(subject)) == ["compiler_seed_found"]


@pytest.mark.parametrize(
    ("shared", "whose", "name", "first"),
    [(False, FIRST, f'"{seed_name(FIRST)}"', f"({IMPORT})"), (True, "one variant", "seedName", "seedFrom")],
)
def test_the_seed_is_the_first_build_up_to_its_installation(shared: bool, whose: str, name: str, first: str) -> None:
    [text] = seeds.bindings(taking(SECOND, shared=shared))
    lines = [line.strip() for line in text.splitlines()]
    assert lines[:8] == [
        f"# The host code of {whose}, which is the same for every GPU, as ccache kept it.",
        f"compilerSeed = {first}.overrideAttrs (old: {{",
        f"pname = {name};",
        'outputs = [ "out" ];',
        "preConfigure = old.preConfigure + ''",
        "compiler_seed ${pkgs.ccache}/bin/ccache",
        "'';",
        "doCheck = false;",
    ]
    assert lines[-4:] == ["compiler_seed_kept", "'';", "allowedReferences = [ ];", "});"]


def test_a_recipe_without_a_seed_has_nothing_of_it() -> None:
    subject = subject_for(SPEC, SECOND)
    assert seeds.head(subject) == "{ ... }:"
    texts = (seeds.bindings, seeds.arguments, seeds.before_configure, seeds.at_the_end)
    assert [list(text(subject)) for text in texts] == [[], [], [], []]
    assert (seeds.parameters(subject), seeds.attributes(subject)) == ({}, {})


def test_the_last_build_of_a_log_says_how_much_it_took() -> None:
    said = "ci-compiler: the compiler seed had {} of {} host objects\n"
    assert seeds.found_in("x\n") == {}
    assert seeds.found_in(said.format(1, 2) + said.format(19, 20)) == {"found": 19, "of": 20}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return Fleet(tmp_path_factory.mktemp("fleet"), MANY)


@pytest.fixture(scope="module")
def small_fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return Fleet(tmp_path_factory.mktemp("small"), FEW)


def engine(output: Path) -> bytes:
    return (output / "engine.a").read_bytes()


def with_seed(extra: str = "") -> Replaced:
    return TAKE, f"{TAKE}\n    {extra}"


def without(extra: str = "") -> Replaced:
    """The same build, which takes nothing from its seed."""
    return TAKE, f"compiler_seed_found() {{ :; }}\n    {extra}"


@pytest.mark.parametrize(("isa", "other"), [("avx2", "avx512"), ("avx512", "avx2")])
def test_a_variant_takes_the_host_code_of_the_first_gpu(fleet: Fleet, isa: str, other: str) -> None:
    output, (found, all_) = fleet.built(f"sm90-{isa}")
    assert (found, all_) == (MANY, MANY + 1)
    assert found / all_ >= 0.95
    plain, _ = fleet.built(f"sm90-{isa}", without())
    assert engine(output) == engine(plain)
    assert engine(output) != engine(fleet.built(f"sm90-{other}", without())[0])
    assert fleet.store("-q", "--references", output) == fleet.store("-q", "--references", plain)


def test_the_first_gpu_takes_all_its_host_code_itself(small_fleet: Fleet) -> None:
    output, found = small_fleet.built("sm80-avx2")
    assert found == (FEW + 1, FEW + 1)
    assert small_fleet.seed(output) == small_fleet.seed(small_fleet.built("sm90-avx2")[0])


def test_a_seed_refers_to_nothing_and_nothing_refers_to_it(small_fleet: Fleet) -> None:
    output, _ = small_fleet.built("sm90-avx2")
    seed = small_fleet.seed(output)
    assert small_fleet.store("-q", "--requisites", seed) == [str(seed)]
    assert str(seed) not in small_fleet.store("-q", "--requisites", output)


def test_a_derivation_names_its_seed_and_no_other(small_fleet: Fleet) -> None:
    for gpu in ("sm80", "sm90"):
        output, _ = small_fleet.built(f"{gpu}-avx2")
        inputs = small_fleet.store("-q", "--references", *small_fleet.store("-q", "--deriver", output))
        (derivation,) = (path for path in inputs if is_seed(path_name(path)))
        assert small_fleet.store("-q", "--outputs", derivation) == [str(small_fleet.seed(output))]


def forged(seed: Path, folder: Path) -> Path:
    """A seed in `folder` with the same keys, where each has the well-formed entry of another file."""
    (entries := folder / "entries").mkdir()
    (made := folder / "forged").mkdir()
    with tarfile.open(fileobj=io.BytesIO((seed / "cache").read_bytes().translate(LESS_BY_ONE))) as archive:
        archive.extractall(entries, filter="data")
    results = sorted(path for path in entries.rglob("*R") if path.is_file())
    objects = [path.read_bytes() for path in results]
    assert len(set(objects)) == FEW + 1
    for path, other in zip(results, [*objects[1:], objects[0]], strict=True):
        path.chmod(0o644)
        path.write_bytes(other)
    with tarfile.open(folder / "forged.tar", "w") as archive:
        archive.add(entries, ".")
    (made / "cache").write_bytes((folder / "forged.tar").read_bytes().translate(MORE_BY_ONE))
    return made


def test_a_forged_seed_is_believed_if_it_is_signed_and_refused_if_not(small_fleet: Fleet, tmp_path: Path) -> None:
    output, _ = small_fleet.built("sm90-avx2")
    right, seed = engine(output), small_fleet.seed(output)
    small_fleet.publish(seed, forged(seed, tmp_path), tmp_path)
    small_fleet.store("--delete", output, seed)
    assert "lacks a valid signature" in small_fleet.copy(seed, tmp_path).stderr
    assert not seed.exists()
    small_fleet.sign(seed, tmp_path)
    try:
        assert small_fleet.copy(seed, tmp_path).returncode == 0
        output, found = small_fleet.built("sm90-avx2")
        assert found == (FEW, FEW + 1)
        assert engine(output) != right
    finally:
        small_fleet.store("--delete", output, seed)


@pytest.mark.parametrize(
    ("extra", "guard", "removed"),
    [
        ('export NIX_CFLAGS_COMPILE="$NIX_CFLAGS_COMPILE -mavx512f"', "*) CCACHE_NAMESPACE", "none) CCACHE_NAMESPACE"),
        ("wrapper=${nixpkgs}/other", "CCACHE_COMPILERCHECK=string:$compiler", "CCACHE_COMPILERCHECK=mtime"),
    ],
)
def test_objects_of_other_flags_or_another_compiler_are_not_taken(
    small_fleet: Fleet, extra: str, guard: str, removed: str
) -> None:
    output, (found, _) = small_fleet.built("sm90-avx2", with_seed(extra))
    assert found == 0
    wanted = engine(small_fleet.built("sm90-avx2", without(extra))[0])
    assert engine(output) == wanted
    unguarded, (found, _) = small_fleet.built("sm90-avx2", with_seed(extra), guard=(guard, removed))
    assert found == FEW
    assert engine(unguarded) != wanted


@pytest.mark.parametrize(
    "replaced",
    [
        with_seed("src=${nixpkgs}/source CCACHE_BASEDIR=/"),
        ('NIX_OUTPATH_USED_AS_RANDOM_SEED = "engine";\n\n  passthru', "passthru"),
    ],
)
def test_objects_of_another_folder_or_random_seed_are_not_taken(small_fleet: Fleet, replaced: Replaced) -> None:
    _, (found, all_) = small_fleet.built("sm90-avx2", replaced)
    assert (found, all_) == (0, FEW + 1)


def test_a_seed_of_a_build_without_cmake_ends_with_an_error(small_fleet: Fleet) -> None:
    done = small_fleet.build("sm90-avx2", ("$CMAKE_CXX_COMPILER_LAUNCHER ", ""))
    assert done.returncode != 0
    assert "ci-compiler: the compiler seed is empty: this build does not compile through CMake" in done.stderr


def test_settings_from_elsewhere_do_not_reach_ccache(tmp_path: Path) -> None:
    ccache, shell = require("ccache"), require("bash")
    (tmp_path / "ccache.conf").write_text("sloppiness = time_macros\n", "utf-8")
    (tmp_path / "seed").mkdir()
    # An archive without entries, shifted as those of seeds are.
    (tmp_path / "seed/cache").write_bytes(bytes([1]) * 10240)
    env = {"PATH": os.environ["PATH"], "NIX_BUILD_TOP": str(tmp_path), "CCACHE_CONFIGPATH": f"{tmp_path}/ccache.conf"}
    env |= {"CCACHE_BASEDIR": "/", "CCACHE_SLOPPINESS": "time_macros", "CCACHE_NOHASHDIR": "1", "CCACHE_RECACHE": "1"}
    code = f". {SHELL}/compiler-seed.sh; compiler_seed {ccache} {tmp_path}/seed; {ccache} --show-config"
    code += "; echo '(CUDA) launcher =' ${CMAKE_CUDA_COMPILER_LAUNCHER-none}"
    done = subprocess.run([shell or "", "-c", code], env=env, capture_output=True, text=True, check=True)
    said = dict(line.partition(") ")[2].split(" = ", 1) for line in done.stdout.splitlines())
    wanted = {"base_dir": "", "sloppiness": "", "read_only": "true", "recache": "false", "hash_dir": "true"}
    wanted |= {"launcher": "none"}  # ccache does not read the flags that reach nvcc in variables
    assert {name: said[name] for name in wanted} == wanted
    assert said["max_size"].split()[0] in ("0", "0.0")


def test_cmake_compiles_through_the_launcher(tmp_path: Path) -> None:
    ccache, shell = require("ccache"), require("bash")
    for tool in ("cmake", "ninja"):
        require(tool)
    project = "cmake_minimum_required(VERSION 3.18)\nproject(p C)\nadd_library(p a.c)\n"
    (tmp_path / "CMakeLists.txt").write_text(project, "utf-8")
    (tmp_path / "a.c").write_text("int a;\n", "utf-8")
    code = f"""
        . {SHELL}/compiler-seed.sh
        compiler_seed {ccache}
        cmake -G Ninja -S . -B build
        : >$CCACHE_STATSLOG
        ninja -C build
        compiler_seed_found
    """
    env = {"PATH": os.environ["PATH"], "NIX_BUILD_TOP": str(tmp_path)}
    done = subprocess.run([shell or "", "-c", code], env=env, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "the compiler seed had 0 of 1 host objects" in done.stdout


def test_all_gpus_of_a_group_take_from_the_first() -> None:
    with_cpu = compiled(spec_with(["sm80", "sm90", "sm100"]))
    takes = {name: set(re.findall(r"import \./engine-python313-(\S+)\.nix", text)) for name, text in with_cpu.items()}
    for isa in ("avx2", "avx512"):
        assert takes[f"cpu-{isa}"] == set()
        for gpu in ("sm80", "sm90", "sm100"):
            assert takes[f"cuda12_8-{gpu}-{isa}"] == {f"cuda12_8-sm80-{isa}"}


def test_a_variant_changes_others_only_if_they_take_from_it() -> None:
    three, without_last = compiled(spec_with(["sm80", "sm90", "sm100"])), compiled(spec_with(["sm80", "sm90"]))
    assert without_last.items() <= three.items()
    without_first = compiled(spec_with(["sm90", "sm100"]))
    assert {name for name, text in without_first.items() if three[name] != text} == {
        f"cuda12_8-{gpu}-{isa}" for gpu in ("sm90", "sm100") for isa in ("avx2", "avx512")
    }


def test_a_variant_without_others_of_its_kind_takes_nothing() -> None:
    assert compiled(spec_with(["sm80"])) == compiled(spec_with(["sm80"], **{"compiler-seed": False}))


def test_variants_with_other_libraries_take_nothing() -> None:
    texts = compiled(spec_with(["sm80", "sm90"], capabilities=True))
    assert not any("compilerSeed" in text for text in texts.values())


def test_without_the_key_recipes_have_no_part_of_it() -> None:
    on, off = compiled(spec_with(["sm80", "sm90"])), compiled(spec_with(["sm80", "sm90"], **{"compiler-seed": False}))
    assert {name for name in on if on[name] == off[name]} == {"cpu-avx2", "cpu-avx512"}
    assert not re.search("ccache|compilerSeed|forSeed|RANDOM_SEED", "".join(off.values()))


def test_a_change_of_the_first_recipe_affects_those_that_take_from_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require("git")
    repository = Repository(tmp_path)
    repository.write(".github/ci-matrix.yaml", json.dumps(document(["sm80", "sm90"])))
    assert repository.ci("recipes") == 0
    repository.commit()
    repository.append(".flox/pkgs/engine-python313-cuda12_8-sm80-avx2.nix")
    repository.commit()
    assert affected(repository, capsys).keys() == {f"engine-python313-cuda12_8-{gpu}-avx2" for gpu in ("sm80", "sm90")}


def test_a_push_to_the_first_recipe_starts_the_shards_that_take_from_it() -> None:
    decided = plan(SPEC)
    files = render(SPEC, decided.shards)
    for shard in each(decided.shards):
        assert (".flox/pkgs/engine-python313-cuda12_8-*-*.nix" in files[shard.path]) == (shard.target != "cpu")


CACHE = {"url": "file:///cache", "public-key": "cache-1:0f8Hk9JvJ9bGmYVvHyuZQ6lZkkYHkS7pq2LZ4wWrbSg="}


def waves(**keys: Any) -> list[set[str]]:
    """The targets of the shards of each wave."""
    found = document(["sm80", "sm90", "sm100"]) | keys
    return [{name.rpartition("-")[2] for name in wave.shards} for wave in forecast(plan(spec_of(found))).waves]


def test_waves_build_seeds_before_those_that_take_them_from_the_cache() -> None:
    assert waves(cache=CACHE) == [{"cpu", "sm80"}, {"sm90", "sm100"}]
    assert waves() == waves(cache=CACHE | {"public": True, "push": "own"}) == [{"cpu", "sm80", "sm90", "sm100"}]


def test_a_shard_waits_for_none_whose_seeds_it_does_not_take() -> None:
    decided = plan(spec_of(document(["sm80", "sm90"]) | {"cache": CACHE}))
    names = {("main", name) for shard in decided.shards for name in shard.variants}
    taking = {(branch, name) for branch, name in names if "sm90" in name}
    assert [wave.shards for wave in load_of(decided, taking, publish=False).waves] == [("build-main-sm90",)]
    unrelated = {("main", f"engine-python313-cuda12_8-{one}") for one in ("sm80-avx2", "sm90-avx512")}
    (wave,) = load_of(decided, unrelated, publish=False).waves
    assert sorted(wave.shards) == ["build-main-sm80", "build-main-sm90"]


def test_explain_names_the_variant_that_the_seed_is_made_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(json.dumps(document(["sm80", "sm90"])), "utf-8")

    def explained(name: str, *options: str) -> str:
        assert run(PROGRAM, ["explain", f"engine-python313-{name}", "--spec", str(file), *options]) == 0
        return capsys.readouterr().out

    first = "engine-python313-cuda12_8-sm80-avx2"
    assert f"  seed         made from the recipe of {first}\n" in explained("cuda12_8-sm90-avx2")
    assert "  seed  " not in explained("cpu-avx2")
    found = checked("ci-compile explain", explained("cuda12_8-sm90-avx2", "--json"))
    assert found["built"][0]["compiler-seed"] == first


def test_a_difference_names_the_seed() -> None:
    before, after = plan(SPEC), plan(spec_with(["sm90", "sm100"]))
    (rebuilt,) = diff(before, after).rebuilt
    assert rebuilt.names == ("engine-python313-cuda12_8-sm90-avx2", "engine-python313-cuda12_8-sm90-avx512")
    assert rebuilt.reasons == ("compiler seed of engine",)
    hardware = tables()
    gpus = {**hardware.gpus, "sm80": replace(hardware.gpus["sm80"], dnn=False)}
    other = plan(replace(SPEC, hardware=replace(hardware, gpus=gpus)))
    assert [group.reasons for group in diff(before, other).rebuilt] == [
        ("target of sm80 8.0 with cuDNN → 8.0 without cuDNN", "compiler seed of engine"),
        ("compiler seed of engine",),
    ]
