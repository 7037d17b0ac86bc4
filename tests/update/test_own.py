"""Own recipes that go to another release: each shape of recipe, and what is refused."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.adoption.evaluation import EvaluatedSource
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.codes import Code
from ci_compiler.errors import InputError
from ci_compiler.spec.build import bundled_spec
from ci_compiler.update.literals import in_form
from ci_compiler.update.own import Wanted, tried
from ci_compiler.update.remote import Remote
from tests.checkers import require
from tests.github.conftest import github
from tests.github.state import GitHub
from tests.recipes.test_affected import Repository
from tests.update.conftest import FILE
from tests.update.test_pull_request import connected
from tests.update.upstreams import Upstreams

__all__ = ["github"]

OLD_PIN, NEW_PIN = "6a030d535719c5190187c4cec156f335e95e3211", "0182a361324364ae3f436a63005877674cf45efb"


def sri(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def fetch(source: EvaluatedSource) -> str:
    return sri(f"{source.url} {source.rev}")


def source(repository: str, revision: str, *, rev: str = "") -> str:
    owner, repo = repository.split("/")
    hash_ = sri(f"https://github.com/{repository}/archive/{revision}.tar.gz {revision}")
    return f'fetchFromGitHub {{ owner = "{owner}"; repo = "{repo}"; rev = "{rev or revision}"; hash = "{hash_}"; }}'


def archive(repository: str, revision: str) -> str:
    url = f"https://github.com/{repository}/archive/{revision}.tar.gz"
    return f'fetchTarball {{ url = "{url}"; sha256 = "{in_form("0" * 52, sri(f"{url} {revision}"))}"; }}'


def moved(folder: Path, files: dict[str, str], *names: str, **wanted: Any) -> dict[str, str]:
    """What becomes of `files` when the recipes `names` go to what is wanted."""
    require("nix-instantiate")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    asked = Wanted(package="tool", **wanted)
    try:
        return tried(folder, dict.fromkeys(names or ["tool"], asked), bundled_spec().hardware, fetch)
    finally:
        assert {name: (folder / name).read_bytes().decode() for name in files} == files


def refusals(folder: Path, files: dict[str, str], *names: str, **wanted: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        moved(folder, files, *names, **wanted)
    assert {one.code for one in caught.value.findings} == {Code.UPDATE_REFUSED}
    return [str(one).removesuffix(" [update-refused]") for one in caught.value.findings]


RELEASE: dict[str, Any] = {"before": "1.2.0", "after": "1.3.1", "revisions": {"us/tool": "v1.3.1"}}

LITERAL = """\
# Tool 1.2.0 for Hopper; 11.2.0, 1.2.0rc1 and 1.2.01 are others
{ stdenv, fetchFromGitHub }:
stdenv.mkDerivation {
  pname = "tool";
  version = "1.2.0";  # v1.2.0
  src = @;
  postPatch = ''
    echo "1.2.0" > version.txt
    sed 's/numpy==1.2.0//' setup.py
  '';
  cmakeFlags = [ "-DTOOL_BUILD_VERSION=1.2.0" ];
  TOOL_BUILD_VERSION = "1.2.0";
  passthru."1.2.0" = true;
  meta.description = "Tool 1.2.0 for H100";
}
"""


def literal(version: str) -> str:
    text = LITERAL.replace("@", source("us/tool", f"v{version}"))
    kept = ("11.2.0", "1.2.0rc1", "1.2.01", "==1.2.0", '."1.2.0"')
    for at, one in enumerate(kept):
        text = text.replace(one, f"<{at}>", 1)
    text = text.replace("1.2.0", version)
    for at, one in enumerate(kept):
        text = text.replace(f"<{at}>", one)
    return text


def test_every_literal_that_states_the_release_is_rewritten(tmp_path: Path) -> None:
    done = moved(tmp_path, {"tool.nix": literal("1.2.0")}, **RELEASE)
    assert done == {"tool.nix": literal("1.3.1")}


SHAPES = {
    "interpolated": """\
{{ stdenv, fetchFromGitHub }}:
stdenv.mkDerivation rec {{
  pname = "tool"; version = "{version}";
  src = {interpolated};
}}
""",
    "final attributes": """\
{{ stdenv, fetchFromGitHub }}:
stdenv.mkDerivation (final: {{
  pname = "tool"; version = "{version}";
  src = {final};
}})
""",
    "named": """\
{{ stdenv, fetchFromGitHub }}:
let toolVersion = "{version}"; toolSrc = {named};
in stdenv.mkDerivation {{ pname = "tool"; version = toolVersion; src = toolSrc; }}
""",
    "of a package inside, with a source in its flags": """\
{{ pkgs, fetchFromGitHub }}:
let
  inner = pkgs.tool.overrideAttrs (old: {{
    version = "{version}";
    src = {source};
    cmakeFlags = [ "-DSOURCE=${{{other}}}" ];
  }});
in pkgs.python313Packages.tool.override {{ tool = inner; }}
""",
    "from PyPI": """\
{{ python3Packages, fetchPypi }}:
python3Packages.buildPythonPackage rec {{
  pname = "tool"; version = "{version}";
  src = fetchPypi {{ inherit pname version; hash = "{pypi}"; }};
}}
""",
}


def shaped(shape: str, version: str, other: str) -> str:
    url = f"mirror://pypi/t/tool/tool-{version}.tar.gz"
    return SHAPES[shape].format(
        version=version,
        source=source("us/tool", f"v{version}"),
        interpolated=source("us/tool", f"v{version}", rev="v${version}"),
        final=source("us/tool", f"v{version}", rev="v${final.version}"),
        named=source("us/tool", f"v{version}", rev="v${toolVersion}"),
        other=source("us/dep", other),
        pypi=sri(f"{url} "),
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_a_literal_is_rewritten_where_it_is(shape: str, tmp_path: Path) -> None:
    revisions = {} if shape == "from PyPI" else {"us/tool": "v1.3.1"}
    revisions |= {"us/dep": "b" * 40} if "inside" in shape else {}
    done = moved(tmp_path, {"tool.nix": shaped(shape, "1.2.0", "a" * 40)}, **{**RELEASE, "revisions": revisions})
    assert done == {"tool.nix": shaped(shape, "1.3.1", "b" * 40)}


def pinned(pin: str, torch: str) -> str:
    return f"""\
# PyTorch {torch} (nixpkgs {pin})
{{ }}:
let pkgs = import ({archive("NixOS/nixpkgs", pin)}) {{ }};
in pkgs.python3Packages.torch.overrideAttrs (old: {{ pname = "tool"; meta.description = "PyTorch {torch}"; }})
"""


def test_the_version_that_nixpkgs_decides_goes_with_its_commit(tmp_path: Path) -> None:
    wanted = {"before": "2.8.0", "after": "2.9.1", "revisions": {"NixOS/nixpkgs": OLD_PIN}}
    old = "fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3"
    done = moved(tmp_path, {"tool.nix": pinned(old, "2.8.0")}, **wanted)
    assert done == {"tool.nix": pinned(OLD_PIN, "2.9.1")}
    wrong = refusals(tmp_path, {"tool.nix": pinned(old, "2.8.0")}, **{**wanted, "after": "2.10.0"})
    assert any("version would be 2.9.1; it is 2.8.0" in line for line in wrong)


def test_a_pin_alone_changes_nothing_else(tmp_path: Path) -> None:
    done = moved(tmp_path, {"tool.nix": pinned(OLD_PIN, "2.9.1")}, revisions={"NixOS/nixpkgs": NEW_PIN})
    assert done == {"tool.nix": pinned(NEW_PIN, "2.9.1")}


THIN = 'import ./lib/tool.nix {{ line = "{line}"; gpu = "{gpu}"; }}\n'
BUILDER = """\
{ line, gpu }:
{ stdenv, fetchFromGitHub }:
let known = import ./table.nix; one = known.${line};
in stdenv.mkDerivation {
  pname = "tool-${gpu}";
  inherit (one) version;
  src = fetchFromGitHub { owner = "us"; repo = "tool"; rev = "v${one.version}"; inherit (one) hash; };
}
"""


def table(version: str) -> str:
    rows = (("1.2", version), ("2.0", "2.0.1"))
    of = {one: source("us/tool", f"v{one}").split('hash = "')[1].split('"')[0] for _, one in rows}
    return "".join(["{\n", *(f'  "{line}" = {{ version = "{v}"; hash = "{of[v]}"; }};\n' for line, v in rows), "}\n"])


def test_recipes_that_share_a_literal_need_one_edit_and_the_others_stay(tmp_path: Path) -> None:
    files = {f"tool-{gpu}.nix": THIN.format(line="1.2", gpu=gpu) for gpu in ("sm80", "sm90")}
    files |= {
        "other.nix": THIN.format(line="2.0", gpu="sm90"),
        "lib/tool.nix": BUILDER,
        "lib/table.nix": table("1.2.0"),
    }
    patch = {**RELEASE, "after": "1.2.1", "revisions": {"us/tool": "v1.2.1"}}
    assert moved(tmp_path, files, "tool-sm80", "tool-sm90", **patch) == {"lib/table.nix": table("1.2.1")}
    left = refusals(tmp_path, files, "tool-sm80", **patch)
    assert any("tool-sm90: version would be 1.2.1; it is 1.2.0" in line for line in left)


REFUSED = {
    "a hash of what the build downloads": (
        """{ buildGoModule, fetchFromGitHub }: buildGoModule {
  pname = "tool"; version = "1.2.0"; src = @;
  vendorHash = "%";
}
""",
        "tool.nix:3:17: no source that is evaluated has this hash",
    ),
    "a source for another system": (
        """{ stdenv, fetchurl }: stdenv.mkDerivation rec {
  pname = "tool"; version = "1.2.0";
  src = if stdenv.isLinux then fetchurl { url = "https://us.org/tool-${version}.gz"; hash = "&"; } else fetchurl {
    url = "https://us.org/tool-${version}.dmg"; hash = "%";
  };
}
""",
        "tool.nix:4:57: no source that is evaluated has this hash",
    ),
    "another package of the same version": (
        """{ stdenv, fetchFromGitHub }: stdenv.mkDerivation {
  pname = "tool"; version = "1.2.0"; src = @;
  buildInputs = [ (stdenv.mkDerivation { pname = "dep"; version = "1.2.0"; }) ];
}
""",
        "dep: version would be 1.3.1; it is 1.2.0",
    ),
    "another source of the same version": (
        """{ stdenv, fetchFromGitHub }: stdenv.mkDerivation {
  pname = "tool"; version = "1.2.0"; src = @; patches = [ ]; DEP = #;
}
""",
        "us/dep would go to v1.3.1; name its revision with --revision",
    ),
    "a hash that no literal has": (
        """{ stdenv, fetchFromGitHub }: stdenv.mkDerivation {
  pname = "tool"; version = "1.2.0";
  src = fetchFromGitHub { owner = "us"; repo = "tool"; rev = "v1.2.0"; hash = "sha256-" + "AAA"; };
}
""",
        "used.0.hash would stay sha256-AAA",
    ),
    "a version of two literals": (
        """{ stdenv, fetchFromGitHub }: let minor = "1.2"; in stdenv.mkDerivation {
  pname = "tool"; version = "${minor}.0"; src = @;
}
""",
        "version would stay 1.2.0",
    ),
    "a source that stays": (
        """{ stdenv, fetchurl }: stdenv.mkDerivation {
  pname = "tool"; version = "1.2.0"; src = fetchurl { url = "https://us.org/r26.gz"; hash = "&"; };
}
""",
        "its source would stay at https://us.org/r26.gz",
    ),
    "a branch": (
        """{ stdenv, fetchFromGitHub }: stdenv.mkDerivation {
  pname = "tool"; version = "1.2.0"; src = fetchFromGitHub { owner = "us"; repo = "tool"; rev = "main"; hash = "&"; };
}
""",
        "us/tool would stay at main",
    ),
    "arguments that decide the hash": (
        """{ stdenv, fetchFromGitHub }: stdenv.mkDerivation {
  pname = "tool"; version = "1.2.0";
  src = fetchFromGitHub { owner = "us"; repo = "tool"; rev = "v1.2.0"; leaveDotGit = true; hash = "&"; };
}
""",
        "`leaveDotGit` of fetchFromGitHub decide",
    ),
    "a hash that another source has as well": (
        """{ stdenv, fetchurl, fetchFromGitHub }: stdenv.mkDerivation {
  pname = "tool"; version = "1.2.0"; src = @;
  DEP = fetchurl { url = "https://us.org/dep.gz"; hash = "~"; };
}
""",
        "https://us.org/dep.gz stays, and has the hash of a source that does not",
    ),
    "a hash from a table": (
        """{ stdenv, fetchFromGitHub }: stdenv.mkDerivation rec {
  pname = "tool"; version = "1.2.0";
  src = fetchFromGitHub {
    owner = "us"; repo = "tool"; rev = "v${version}";
    hash = { "1.2.0" = "~"; }.${version} or "sha256-other";
  };
}
""",
        "used.0.hash would be sha256-other",
    ),
    "a condition on the version": (
        """{ stdenv, lib, fetchFromGitHub }: stdenv.mkDerivation rec {
  pname = "tool"; version = "1.2.0"; src = @;
  env.FIX = if version == "1.2.0" || lib.versionOlder version "1.2.0" then "1" else "";
}
""",
        "tool: env.FIX would be not set; it is 1",
    ),
    "a text alone": ('{ hello }: hello.overrideAttrs { meta.description = "Tool 1.2.0"; }\n', "has the version 1.2.0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_placed_is_refused(case: str, tmp_path: Path) -> None:
    text, message = REFUSED[case]
    marks = {"@": source("us/tool", "v1.2.0"), "#": source("us/dep", "v1.2.0")}
    marks |= {"%": sri("downloads"), "&": sri("source"), "~": marks["@"].split('"')[7]}
    for mark, value in marks.items():
        text = text.replace(mark, value)
    found = refusals(tmp_path, {"tool.nix": text}, **RELEASE, upstream="us/tool")
    assert any(message in line for line in found), found
    assert all(line.startswith("tool.nix") for line in found)


def test_files_beside_a_recipe_are_edited_and_other_recipes_are_not(tmp_path: Path) -> None:
    own = "let one = import ./versions.nix; in { stdenv, fetchFromGitHub }: stdenv.mkDerivation {\n"
    own += '  pname = "tool"; inherit (one) version; src = one.src fetchFromGitHub; DEP = import ../dep.nix { };\n}\n'
    dep = '{ }: "1.2.0"\n'

    def versions(version: str) -> str:
        fetched = source("us/tool", f"v{version}").replace("fetchFromGitHub", "")
        return f'{{ version = "{version}"; src = fetch: fetch {fetched}; }}\n'

    files = {"tool/default.nix": own, "tool/versions.nix": versions("1.2.0"), "dep.nix": dep}
    assert any("exports.DEP would stay 1.2.0" in line for line in refusals(tmp_path, files, **RELEASE))
    files = {**files, "dep.nix": '{ }: "5"\n', "broken.nix": "{ }: 1\n"}
    assert moved(tmp_path, files, **RELEASE) == {"tool/versions.nix": versions("1.3.1")}
    files["broken.nix"] = "{ }: [ ./tool/versions.nix ]\n"
    with pytest.raises(InputError, match=r"broken\.nix: the recipe gives a value of type list"):
        moved(tmp_path, files, **RELEASE)


def test_a_revision_of_no_source_is_refused(tmp_path: Path) -> None:
    wanted = {**RELEASE, "revisions": {"us/tool": "v1.3.1", "us/tol": "v1"}}
    found = refusals(tmp_path, {"tool.nix": literal("1.2.0")}, **wanted)
    assert found == ["tool.nix: neither it nor the others have a source of us/tol"]


def test_a_short_version_is_not_taken_for_an_architecture(tmp_path: Path) -> None:
    wanted = {"before": "9.0", "after": "9.1", "revisions": {"us/tool": "v9.1"}}
    text = "{ stdenv, fetchFromGitHub }: stdenv.mkDerivation {\n"
    text += f'  pname = "tool"; version = "9.0"; src = {source("us/tool", "v9.0")};\n  ARCH = "9.0";\n}}\n'
    found = refusals(tmp_path, {"tool.nix": text}, **wanted)
    assert any("tool: exports.ARCH would be 9.1; it is 9.0" in line for line in found)
    name = text.replace("ARCH", "TOOL_VERSION")
    assert moved(tmp_path, {"tool.nix": name}, **wanted)["tool.nix"].count("9.1") == 3


def test_every_other_byte_stays(tmp_path: Path) -> None:
    text = literal("1.2.0").replace("\n", "\r\n").replace("Hopper", "Höpper") + "# the end"
    done = moved(tmp_path, {"tool.nix": text}, **RELEASE)
    right = literal("1.3.1").replace("\n", "\r\n").replace("Hopper", "Höpper") + "# the end"
    assert done == {"tool.nix": right}
    (tmp_path / "tool.nix").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"tool\.nix:1:\d+: is not UTF-8 text"):
        tried(tmp_path, {"tool": Wanted(package="tool", **RELEASE)}, bundled_spec().hardware, fetch)


def test_hashes_keep_their_form() -> None:
    digest = bytes(range(32))
    new = f"sha256-{base64.b64encode(digest).decode()}"
    assert in_form("sha256-x", new) == new
    assert in_form("0" * 64, new) == digest.hex()
    assert in_form("0" * 52, new) == "07qy3lf1n6hr30bic58l2c91240g1q6hq2qa1440f1h50h1h4080"


# The command.

FLEET = """\
version: 1
owner: us
branches:
  main: {versions: {tool: 1.2.0, other: "5.0"}}
  next: {publish: false, versions: {tool: 1.2.0}}
packages:
  tool: {recipes: own, upstream: {repository: us/tool, line: 1}, variants: {tool: {system: x86_64-linux}}}
  other: {recipes: own, branches: [main], variants: {other: {system: x86_64-linux}}}
runners:
  builder: {runs-on: [self-hosted, linux, x64, b], cpu: [avx2]}
publish: {on-shared-machines: true}
"""


@pytest.fixture
def own(fleet: Repository, upstreams: Upstreams) -> Repository:
    upstreams.tag("us/tool", "v1.2.0-rc", "v1.2.0")
    fleet.write(FILE, FLEET)
    fleet.write(".flox/pkgs/tool.nix", literal("1.2.0"))
    fleet.write(".flox/pkgs/other.nix", '{ hello }: hello.overrideAttrs { version = "5.0"; }\n')
    fleet.commit()
    return fleet


def recipe(fleet: Repository) -> str:
    return (fleet.root / ".flox/pkgs/tool.nix").read_text("utf-8")


def right(upstreams: Upstreams, commit: str, version: str) -> str:
    """The recipe of `version` with the hash of its source."""
    with Remote({"CI_COMPILE_UPSTREAMS": upstreams.address}) as remote:
        stated = source("us/tool", f"v{version}").split('hash = "')[1].split('"')[0]
        return literal(version).replace(stated, remote.hash("us/tool", commit, submodules=False))


def test_update_edits_own_recipes_and_the_spec(
    own: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = upstreams.tag("us/tool", "v1.3.1-rc", "v1.3.1")
    assert own.ci("update", "tool", "--dry-run") == 0
    assert "1 file edited; the recipes evaluate to what they did, but for the release" in capsys.readouterr().out
    assert recipe(own) == literal("1.2.0")
    assert own.ci("update") == 0
    assert recipe(own) == right(upstreams, commit, "1.3.1")
    assert (own.root / FILE).read_text("utf-8") == FLEET.replace("tool: 1.2.0", "tool: 1.3.1", 1)
    assert own.ci("update") == 0
    assert "nothing says where its releases are (`upstream`): other" in capsys.readouterr().err.replace("their", "its")
    own.git("checkout", "-q", "--detach")
    assert own.ci("update") == 0
    assert "no branch is checked out that has recipes of them: tool" in capsys.readouterr().err


TORCH = """\
version: 1
owner: us
branches:
  main: {versions: {torch: 2.8.0, torchvision: 0.23.0, tool: 1.2.0}}
packages:
  torch: {recipes: own, variants: {torch: {system: x86_64-linux}}}
  torchvision: {recipes: own, variants: {vision: {system: x86_64-linux}}}
  tool: {recipes: own, upstream: {repository: us/tool, line: 1}, variants: {tool: {system: x86_64-linux}}}
runners:
  builder: {runs-on: [self-hosted, linux, x64, b], cpu: [avx2]}
publish: {on-shared-machines: true}
"""


@pytest.mark.parametrize("follows", [True, False])
def test_what_cannot_be_edited_stays_with_what_follows_it(
    follows: bool, own: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    upstreams.release("2.8.1", "0.23.1", "")
    upstreams.tag("us/tool", "v1.3.1-rc", "v1.3.1")
    torch = SHAPES["interpolated"].format(version="2.8.0", interpolated=source("pytorch/pytorch", "v2.8.0"))
    vision = SHAPES["interpolated"].format(version="0.23.0", interpolated=source("pytorch/vision", "v0.23.0"))
    recipes = {"torch": torch, "vision": vision if follows else vision.replace("fetchFromGitHub", "fetchFromGitLab")}
    for name, text in recipes.items():
        own.write(f".flox/pkgs/{name}.nix", text)
    own.write(FILE, TORCH)
    assert own.ci("update") == 0
    err = capsys.readouterr().err
    assert 'version = "1.3.1"' in recipe(own)
    stated = TORCH.replace("1.2.0", "1.3.1")
    if follows:
        stated = stated.replace("2.8.0", "2.8.1").replace("0.23.0", "0.23.1")
        assert "stays" not in err
    else:
        why = "the hash of v0.23.1 by fetchFromGitLab is not known here; edit it by hand"
        assert f"vision.nix:4:80: torch stays on main: {why}; see `ci-compile update torch` on main" in err
        assert {name: (own.root / f".flox/pkgs/{name}.nix").read_text("utf-8") for name in recipes} == recipes
    assert (own.root / FILE).read_text("utf-8") == stated


def test_nothing_is_written_if_a_recipe_cannot_follow(
    own: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    upstreams.tag("us/tool", "v1.3.1-rc", "v1.3.1")
    for edit, option, message in (
        (("fetchFromGitHub {", "fetchFromGitHub { leaveDotGit = true;"), [], "`leaveDotGit` of fetchFromGitHub"),
        (("fetchFromGitHub", "fetchFromGitLab"), [], "the hash of v1.3.1 by fetchFromGitLab is not known here"),
        (("", ""), ["--revision", "us/tool=v1.9"], "the hash of v1.9 by fetchFromGitHub is not known here"),
        (("", ""), ["--revision", "tool"], "is not OWNER/NAME=REVISION"),
        (("", ""), ["--branch", "next"], "check out the branch on which to edit them"),
    ):
        own.write(".flox/pkgs/tool.nix", literal("1.2.0").replace(*edit))
        assert own.ci("update", "tool", *option) == 2
        assert message in capsys.readouterr().err
        assert recipe(own) == literal("1.2.0").replace(*edit)
        assert (own.root / FILE).read_text("utf-8") == FLEET


def test_a_pull_request_for_each_branch_has_its_recipes(
    own: Repository,
    upstreams: Upstreams,
    github: GitHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    upstreams.tag("us/tool", "v1.3.1-rc", "v1.3.1")
    connected(own, github, monkeypatch)
    own.git("checkout", "-qb", "next")
    own.append(".flox/pkgs/tool.nix", "# next\n")
    own.commit()
    own.git("push", "-q", "origin", "next")
    own.git("checkout", "-q", "main")
    own.git("branch", "-qD", "next")
    own.git("fetch", "-q", "origin")
    for _ in range(2):
        assert own.ci("update", "--pull-request") == 0
    opened = {one["base"]: (one["title"], one["head"]) for one in github.pulls.values()}
    assert opened == {
        "main": ("Update tool to 1.3.1", "ci-compile-update"),
        "next": ("Update tool to 1.3.1", "ci-compile-update@next"),
    }
    assert len(github.pulls) == 2
    for base, (_, head) in opened.items():
        own.git("fetch", "-q", "origin", head)
        changed = own.git("diff", "--name-only", f"origin/{base}", "FETCH_HEAD").split()
        assert changed == [".flox/pkgs/tool.nix", *[".github/BUILD_MATRIX.md", FILE] * (base == "main")]
        text = own.git("show", "FETCH_HEAD:.flox/pkgs/tool.nix")
        assert 'version = "1.3.1";  # v1.3.1' in text
        assert text.endswith("# next") == (base == "next")
    assert recipe(own) == literal("1.2.0")
    assert own.git("worktree", "list").count("\n") == 0
    own.git("checkout", "-q", "next")
    assert own.ci("update", "tool", "--pull-request") == 2
    assert "edits the default branch alone" in capsys.readouterr().err


ADOPTED = {
    "tool.nix": literal("1.2.0").replace('"v1.2.0"', '"release-1.2.0"'),
    "kit.nix": """\
{ stdenv, fetchFromGitHub }:
stdenv.mkDerivation {
  pname = "kit"; version = "0.3"; src = @;
}
""".replace("@", source("us/kit", "v0.3")),
    "dated.nix": """\
{ stdenv, fetchFromGitHub }:
stdenv.mkDerivation { pname = "dated"; version = "0.3"; src = @; }
""".replace("@", source("us/dated", "a" * 40)),
}


def test_adopt_states_the_upstream_of_the_fetcher_and_update_follows_it(own: Repository, upstreams: Upstreams) -> None:
    for name, text in ADOPTED.items():
        own.write(f".flox/pkgs/{name}", text)
    own.write(FILE, None)
    assert run(PROGRAM, ["adopt", str(own.root), "-o", str(own.root / FILE)]) == 0
    packages = yaml.safe_load((own.root / FILE).read_text("utf-8"))["packages"]
    found = {name: row.get("upstream") for name, row in packages.items()}
    tool = {"repository": "us/tool", "tags": "release-@version@"}
    assert found == {"dated": None, "kit": {"repository": "us/kit"}, "other": None, "tool": tool}
    upstreams.tag("us/kit", "v0.3-rc", "v0.3.1")
    own.commit()
    assert own.ci("update", "kit") == 0
    assert 'version = "0.3.1"' in (own.root / ".flox/pkgs/kit.nix").read_text("utf-8")
    assert own.git("status", "--short").split() == ["M", ".flox/pkgs/kit.nix", "M", FILE]
