"""The variants that a change rebuilds, no more and no fewer: through files, imports and the spec."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.git import Git
from ci_compiler.plan.lookup import built_variants
from ci_compiler.plan.pipeline import plan
from ci_compiler.recipes.affected import affected as find_affected
from ci_compiler.recipes.affected import named_paths, with_importers
from ci_compiler.spec.build import parse_spec
from tests.adoption.test_audit import CPU, SPEC, V90, X90
from tests.checkers import require
from tests.output import checked
from tests.repositories import commit, init
from tests.specs import PIN, small, spec_of

PKGS = ".flox/pkgs"
VCPU = CPU.replace("pytorch", "torchvision")


class Repository:
    """A git repository with the recipes of the test spec on the branch main."""

    def __init__(self, root: Path) -> None:
        self.root = root
        if not (root / ".git").exists():
            init(root)

    def git(self, *words: str) -> str:
        command = ["git", "-C", str(self.root), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def write(self, path: str, text: str | None) -> None:
        target = self.root / path
        if text is None:
            target.unlink()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")

    def append(self, path: str, text: str = "# edited\n") -> None:
        self.write(path, (self.root / path).read_text("utf-8") + text)

    def commit(self) -> str:
        return commit(self.root)

    def ci(self, *words: str) -> int:
        return run(PROGRAM, [*words, "--root", str(self.root)])


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    require("git")
    made = Repository(tmp_path)
    made.write(".github/ci-matrix.yaml", SPEC)
    assert made.ci("recipes") == 0
    made.commit()
    return made


@pytest.mark.parametrize(
    ("because", "found"),
    [
        ({}, {}),
        ({"x": "why"}, {"x": "why"}),
        ({"lib/c.nix": "c"}, {"lib/c.nix": "c", "b.nix": "c", "a.nix": "c"}),
        ({"lib/data/1": "1"}, {"lib/data/1": "1", "lib/c.nix": "1", "b.nix": "1", "a.nix": "1"}),
        ({"lib/data": "x"}, {"lib/data": "x", "lib/c.nix": "x", "b.nix": "x", "a.nix": "x"}),
        ({"lib/database": "x"}, {"lib/database": "x"}),
        ({"b.nix": "b", "lib/c.nix": "c"}, {"b.nix": "b", "lib/c.nix": "c", "a.nix": "b"}),
        ({"z.nix": "z", "lib/c.nix": "c"}, {"z.nix": "z", "lib/c.nix": "c", "b.nix": "c", "a.nix": "c"}),
    ],
)
def test_a_cause_reaches_all_that_name_it(because: dict[str, str], found: dict[str, str]) -> None:
    texts = {"a.nix": "[ ./b.nix ./z.nix ]", "b.nix": "import ./lib/c.nix", "lib/c.nix": "./data", "d.nix": "lib/c.nix"}
    if "z.nix" in because:
        texts["a.nix"] = "import ./b.nix"
    assert with_importers(texts, because) == found
    assert with_importers({"e.nix": "./."}, {"y": "why"}) == {"y": "why", "e.nix": "why"}


FILE = ".github/ci-matrix.yaml"


def commanded(**changes: Any) -> str:
    """A spec without recipes, in which `b` is built with `a`."""
    command = {"files": ["x"], "install": "x", "publish": "x"}
    packages = {
        name: {
            "command": command | {"build": f"ci/{name}.sh", "sources": [f"{name}/**"]},
            "needs": ["a"] * (name == "b"),
        }
        for name in "abc"
    }
    packages["c"]["command"] |= changes.pop("c", {})
    branch = {"cuda": "12.8", "versions": dict.fromkeys("abc", "1") | changes.pop("versions", {})}
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}}}
    return json.dumps(small(packages=packages, branches={"main": branch}, matrix=matrix, backend="command", **changes))


@pytest.mark.parametrize(
    ("edits", "because"),
    [
        ({"a/x.py": "1"}, {"a": "a/x.py", "b": "a/x.py"}),
        ({"b/x.py": "1", "README.md": "1"}, {"b": "b/x.py"}),
        ({"ci/c.sh": "1"}, {"c": "ci/c.sh"}),
        ({"README.md": "1"}, {}),
        ({FILE: commanded() + "\n"}, {}),
        ({FILE: commanded(owner="other")}, {}),
        ({FILE: commanded(versions={"c": "2"})}, {"c": FILE}),
        ({FILE: commanded(versions={"a": "2"})}, {"a": FILE, "b": FILE}),
        ({FILE: commanded(versions={"a": "2"}), "b/x.py": "1"}, {"a": FILE, "b": "b/x.py"}),
        ({FILE: commanded(c={"build": "ci/d.sh"})}, {"c": FILE}),
        ({FILE: commanded(c={"files": ["y"]})}, {"c": FILE}),
        ({FILE: commanded(c={"env": {"X": "1"}})}, {"c": FILE}),
    ],
)
def test_without_recipes_sources_values_and_commands_decide(
    edits: dict[str, str], because: dict[str, str], tmp_path: Path
) -> None:
    made = Repository(tmp_path)
    made.write(FILE, commanded())
    base = made.commit()
    for path, text in edits.items():
        made.write(path, text)
    head = made.commit()
    spec = parse_spec(edits.get(FILE, commanded()).encode(), shown=FILE)
    found = find_affected(Git(tmp_path), base=base, head=head, spec=spec, branch="main")
    assert {one.name.partition("-")[0]: one.because for one in found} == because
    assert find_affected(Git(tmp_path), base=base, head=head, spec=spec, branch="other") == ()


def test_a_wrong_spec_before_has_nothing_in_common(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    for text in ("version: 2\n", commanded()):
        made.write(FILE, text)
        made.commit()
    spec = parse_spec(commanded().encode(), shown=FILE)
    found = find_affected(Git(tmp_path), base="HEAD~1", head="HEAD", spec=spec, branch="main")
    assert [one.because for one in found] == [FILE] * 3


def affected(repository: Repository, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    capsys.readouterr()
    assert repository.ci("affected", "--base", "HEAD~1", "--json", *words) == 0
    return {row["name"]: row["because"] for row in checked("ci-compile affected", capsys.readouterr().out)}


def test_a_changed_recipe_affects_its_importers(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.append(f"{PKGS}/{X90}.nix")
    repository.write("README.md", "x")
    repository.commit()
    because = f"{PKGS}/{X90}.nix"
    assert affected(repository, capsys) == {X90: because, V90: because}


def test_a_package_that_nothing_imports_affects_only_itself(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.append(f"{PKGS}/{V90}.nix")
    repository.commit()
    assert affected(repository, capsys) == {V90: f"{PKGS}/{V90}.nix"}


def test_a_shared_builder_and_a_patch_folder_affect_their_users(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.write(f"{PKGS}/lib/build.nix", "{ name }: import ./deep { inherit name; }\n")
    repository.write(f"{PKGS}/lib/deep/default.nix", "{ name }: { patches = [ ../../../../patches ]; }\n")
    repository.write("patches/a.patch", "a")
    repository.write(f"{PKGS}/{X90}.nix", 'import ./lib/build.nix { name = "a"; }\n')
    repository.write(f"{PKGS}/{CPU}.nix", '# import ./lib/build.nix\n{ }: "import ./lib/build.nix"\n')
    repository.commit()
    repository.append(f"{PKGS}/lib/deep/default.nix")
    repository.commit()
    deep = f"{PKGS}/lib/deep/default.nix"
    assert affected(repository, capsys) == {X90: deep, V90: deep}
    repository.append("patches/a.patch")
    repository.commit()
    assert affected(repository, capsys) == {X90: "patches/a.patch", V90: "patches/a.patch"}


def test_what_a_package_declares_as_shared_affects_all_its_variants(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = SPEC.replace("torchvision: {title", "torchvision: {shared: [nix, flags.txt], title")
    assert shared != SPEC
    repository.write(".github/ci-matrix.yaml", shared)
    repository.write("nix/deep/a.nix", "{ }\n")
    repository.write("flags.txt", "-O2\n")
    repository.commit()
    for path in ("nix/deep/a.nix", "flags.txt"):
        repository.append(path)
        repository.commit()
        found = affected(repository, capsys)
        assert set(found.values()) == {path}
        assert len(found) == 5
        assert {V90, VCPU} <= found.keys()


def test_a_changed_template_affects_the_variants_that_are_rendered_from_it(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = "recipes: {'*-cpu-*': template}, template: nix/torch.nix"
    repository.write(".github/ci-matrix.yaml", SPEC.replace("attribute: torch", f"attribute: torch, {kinds}"))
    repository.write("nix/torch.nix", '{ }: import ./lib/torch.nix "@name@"\n')
    assert repository.ci("recipes") == 0
    repository.commit()
    repository.append("nix/torch.nix")
    repository.commit()
    found = affected(repository, capsys)
    assert {found[CPU], found[VCPU]} == {"nix/torch.nix"}
    assert X90 not in found


@pytest.mark.parametrize("lock", [".flox/env/manifest.lock", ".flox/nix-builds.lock"])
@pytest.mark.parametrize("changes", [{}, {"nixpkgs": PIN}, {"cuda": {"12.8": {"nixpkgs": PIN}}}])
def test_a_lock_of_flox_affects_the_own_recipes_without_a_pin(
    lock: str, changes: dict[str, object], repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether a recipe is a file or a folder. A pull request and the path filters of a push agree."""
    package = {"pytorch": {"attribute": "torch", "recipes": "own"}}
    spec = small(branches={"main": {"cuda": "12.8", **changes}}, packages=package)
    follow = {"cpu"} if "cuda" in changes else {"cpu", "sm90"} - ({"cpu", "sm90"} if changes else set())
    names = {one.variant.name for one in built_variants(plan(spec_of(spec)))}
    for name in names:
        path = f"{name}/default" if "avx512" in name else name
        repository.write(f"{PKGS}/{path}.nix", "{ pkgs }: pkgs.hello\n")
    repository.write(".github/ci-matrix.yaml", json.dumps(spec))
    assert repository.ci() == 0
    for gpu in ("cpu", "sm90"):
        compiled = (repository.root / f".github/workflows/build-main-{gpu}.yml").read_text("utf-8")
        assert (f'- "{lock}"\n' in compiled) == (gpu in follow)
    repository.write(lock, "1")
    repository.commit()
    repository.append(lock)
    repository.commit()
    expected = {name for name in names if any(gpu in name for gpu in follow)}
    assert affected(repository, capsys) == dict.fromkeys(expected, lock)


def test_no_change_or_an_unused_file_affects_nothing(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.commit()
    assert affected(repository, capsys) == {}
    repository.write(".github/workflows/x.yml", "name: x\n")
    repository.commit()
    assert affected(repository, capsys) == {}


def test_a_changed_spec_affects_variants_before_their_recipes_are_written(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = ".github/ci-matrix.yaml"
    repository.write(spec, SPEC.replace("torchvision: 0.23.0", "torchvision: 0.23.1").replace("count: 1", "count: 2"))
    repository.commit()
    names = affected(repository, capsys)
    assert {name.split("-")[0] for name in names} == {"torchvision"}
    assert len(names) == 5
    assert set(names.values()) == {spec}
    repository.write(spec, SPEC + "# a remark\n")
    repository.commit()
    assert repository.ci("affected", "--base", "HEAD~2", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_changes_are_counted_from_the_merge_base(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    """Commits that the base gained meanwhile do not count."""
    repository.git("checkout", "-qb", "topic")
    repository.append(f"{PKGS}/{V90}.nix")
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.append(f"{PKGS}/{CPU}.nix")
    repository.commit()
    capsys.readouterr()
    assert repository.ci("affected", "--base", "main", "--head", "topic", "--branch", "main") == 0
    assert capsys.readouterr().out.split() == [V90]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--base", "nowhere"], "no commit is called 'nowhere' here"),
        (["--base", "--help-all"], "unknown option --help-all"),
        (["--base", "HEAD", "--branch", "mian"], "unknown branch 'mian'; did you mean main?"),
    ],
)
def test_wrong_arguments_are_refused(
    repository: Repository, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    try:
        code = repository.ci("affected", *words)
    except SystemExit as done:
        code = int(str(done.code))
    assert code == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_folder_without_git_and_a_shallow_clone_are_refused(
    repository: Repository, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tmp_path_factory.mktemp("plain")
    assert run(PROGRAM, ["affected", "--base", "HEAD", "--branch", "main", "--root", str(plain)]) == 2
    assert "not a git repository" in capsys.readouterr().err
    first = repository.git("rev-parse", "HEAD")
    repository.append(f"{PKGS}/{V90}.nix")
    repository.commit()
    clone = tmp_path_factory.mktemp("shallow") / "clone"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{repository.root}", str(clone)], check=True)
    assert run(PROGRAM, ["affected", "--base", first, "--branch", "main", "--root", str(clone)]) == 2
    assert "the clone is shallow" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import ./a.nix", {"x/a.nix"}),
        ("import ../a/b.nix { }", {"a/b.nix"}),
        ('"./a.nix ${./b.nix} ${"./c.nix"}"', {"x/b.nix"}),
        ("''\n  ./a.nix ''${./b.nix} ${./c.nix}\n''", {"x/c.nix"}),
        ("# ./a.nix\n/* ./b.nix */ ./c.nix", {"x/c.nix"}),
        ("<nixpkgs>", set()),
    ],
)
def test_paths_are_read_from_nix_tokens(text: str, found: set[str]) -> None:
    assert named_paths("x/y.nix", text) == found
