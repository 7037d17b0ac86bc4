"""Compares the stand-in for nixpkgs with nixpkgs' own functions: `python -m tests.adoption.differential NIXPKGS`.

NIXPKGS is a folder that `import` takes as nixpkgs: a checkout, or nixpkgs' functions around packages of the same names.
Every recipe of the bundled stack is evaluated with both, or of the folders named after it: `FOLDER:vllm-*` stands for
those of such names. Prints a table in Markdown: for each attribute how many recipes have it, in how many it is equal,
and an example of a difference. `evaluates` counts the recipes that both evaluate.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ci_compiler.adoption import nix_instantiate as nix
from ci_compiler.adoption.evaluation import Evaluation, Folders, read
from ci_compiler.adoption.evaluator import evaluate, find_recipes, name_of, recipe_folder
from ci_compiler.adoption.real_nixpkgs import _EXPRESSION
from ci_compiler.hardware.families import DEFAULT
from ci_compiler.plan.rules import judge
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.build import bundled_spec

HERE = Path(__file__).parent
AT_ONCE = 20
"""The recipes of one process, each of which holds a nixpkgs in memory."""

PLAIN = (
    "name", "pname", "version", "system", "platforms", "description", "long_description", "required_system_features",
    "ninja_flags", "cmake_flags", "max_jobs", "propagated_outputs", "flags",
)  # fmt: skip
BY_NAME = ("exports", "attributes", "passthru", "meta")
_STORE = re.compile(
    r"/nix/store/[0-9a-z]{32}-((?:python3\.\d+-)?[A-Za-z_][\w+]*(?:-[A-Za-z_][\w+]*)*?)"
    r"(?:-[0-9][\w.]*)?(?:-(?:bin|dev|lib|static))?(?![\w+-])"
)
_LEAST: Mapping[str, Any] = {
    "package": "", "attribute": "", "python": "", "pin": "", "unknown": [], "changes": [],
    "propagated_torch": [], "config": {}, "override": {}, "overlays": [], "overlaid": {}, "places": {},
}  # fmt: skip


def bundled(scratch: Path) -> Iterator[tuple[Path, str]]:
    """The branches of the bundled stack, as folders, each with a pattern for every recipe."""
    spec = bundled_spec()
    for branch in spec.branches:
        for path, text in recipes(spec, judge(spec), branch).items():
            (scratch / branch / path).parent.mkdir(parents=True, exist_ok=True)
            (scratch / branch / path).write_text(text, "utf-8")
        yield scratch / branch, "*"


def named(folders: list[str], scratch: Path) -> Iterator[tuple[Path, str]]:
    """Copies of the folders, each with the pattern of the names of recipes."""
    for number, argument in enumerate(folders):
        folder, _, pattern = argument.partition(":")
        yield shutil.copytree(folder, scratch / "named" / str(number)), pattern or "*"


def probed(root: Path, pattern: str) -> list[Path]:
    """A recipe beside each recipe of `root` of such a name, which adds what that one sees."""
    probe = recipe_folder(root) / "lib/probe.nix"
    probe.parent.mkdir(exist_ok=True)
    probe.write_text((HERE / "probe.nix").read_text("utf-8"), "utf-8")
    found = []
    for path in (path for path in find_recipes(root) if fnmatch(name_of(path), pattern)):
        found.append(path.with_name(f"probe-{name_of(path)}.nix"))
        found[-1].write_text(f"import ./lib/probe.nix ./{path.name}\n", "utf-8")
    return found


def real(paths: list[Path], nixpkgs: Path, scratch: Path) -> Mapping[str, Mapping[str, Any] | None]:
    """What each recipe evaluates to with nixpkgs' own functions, as data for `read`; None for what nixpkgs refuses."""
    batch = scratch / "batch.json"
    named = {name_of(path): str(path) for path in paths}
    given = {"tag": "", "wanted": dict.fromkeys(named), "recipes": named, "nixpkgs": str(nixpkgs), "pin": {}}
    batch.write_text(json.dumps({**given, "system": "x86_64-linux"}), "utf-8")
    arguments = ("--argstr", "evaluate", str(_EXPRESSION), "--argstr", "batch", str(batch))
    readable = [*{path.parent.parent.parent for path in paths}, nixpkgs, HERE, _EXPRESSION.parent, scratch]
    command = nix.command(
        "-I", f"nixpkgs={nixpkgs}", "--eval", "--strict", "--json", str(HERE / "differential.nix"), *arguments,
        readable=readable,
    )  # fmt: skip
    done = subprocess.run(command, env=nix.environment(scratch), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    return dict(json.loads(done.stdout))


def read_as(one: Evaluation, data: Mapping[str, Any]) -> Evaluation:
    """The real evaluation, with the attributes that the stand-in says the recipe sets."""
    record = {**_LEAST, **data["record"], "set": list(one.sets)}
    record["families"] = [DEFAULT] if record["toolkit"]["version"] else []
    return read({**data, "record": record}, path=one.path, folders=Folders(named={}))


def values(one: Evaluation) -> dict[str, object]:
    """What is compared, by name."""
    found: dict[str, object] = {name: getattr(one, name) for name in PLAIN}
    for group in BY_NAME:
        found |= {f"{group}.{name}": value for name, value in getattr(one, group).items()}
    found |= {f"seen: {name}": value for name, value in json.loads(str(found.pop("attributes.ciProbe"))).items()}
    found["patches"] = [patch.name for patch in one.patches]
    found["torches"] = len(set(one.torches))
    found["toolkit"] = one.toolkit_version if one.toolkit_support else ""
    found["sources"] = [
        (source.owner, source.repo, source.rev.removeprefix("refs/tags/"), source.hash) for source in one.sources
    ]
    return {name: _STORE.sub(r"\1", json.dumps(value, sort_keys=True)) for name, value in found.items()}


def main(nixpkgs: Path, folders: list[str], scratch: Path) -> None:
    """Evaluates with both and prints the table."""
    compared, equal, examples, pairs = Counter[str](), Counter[str](), dict[str, str](), set[tuple[str, str]]()
    for root, pattern in named(folders, scratch) if folders else bundled(scratch):
        paths = probed(root, pattern)
        found, findings = evaluate(root, paths)
        if findings:
            sys.exit("\n".join(map(str, findings)))
        by_name = {name_of(one.path): one for one in found}
        for start in range(0, len(paths), AT_ONCE):
            for name, data in real(paths[start : start + AT_ONCE], nixpkgs, scratch).items():
                compared["evaluates"] += 1
                equal["evaluates"] += data is not None
                if data is None:
                    examples.setdefault("evaluates", name)
                    continue
                mine, theirs = values(by_name[name]), values(read_as(by_name[name], data))
                pairs.add((by_name[name].drv_path, data["drv_path"]))
                for key in mine.keys() | theirs.keys():
                    compared[key] += 1
                    equal[key] += mine.get(key) == theirs.get(key)
                    if mine.get(key) != theirs.get(key):
                        examples.setdefault(key, f"{mine.get(key)} / {theirs.get(key)}")
    print("| attribute | recipes | equal | different | stand-in / nixpkgs, for example |\n|---|---|---|---|---|")
    for key in sorted(compared):
        example = examples.get(key, "").replace("|", "\\|")[:160]
        print(f"| `{key}` | {compared[key]} | {equal[key]} | {compared[key] - equal[key]} | {example} |")
    print(f"\n{len(pairs)} recipes, {len({a for a, _ in pairs})} and {len({b for _, b in pairs})} derivations")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ci-compile-") as folder:
        main(Path(sys.argv[1]).resolve(), sys.argv[2:], Path(folder).resolve())
