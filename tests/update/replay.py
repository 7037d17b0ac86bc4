"""The bump commits of fleets, replayed: `python -m tests.update.replay FOLDER...`, each a git repository of recipes.

A commit is a bump if it edits recipes, and a version, revision or hash is among what it edits. Its parent is taken out,
and the recipes that the commit edits go to the release that the commit went to. The commit stands for the network: it
has the hash of each source. Every file that is written is compared with the commit's, byte for byte.

pure: bumps that edit nothing of recipes but versions, revisions and hashes. mixed: all others.
reproduced: the same bytes. refused: nothing was written. no request: its files do not tell where the commit goes.
partial: the commit edits more; every line that was edited is the commit's, or the commit has words of its own there.
wrong: a line was edited that the commit leaves alone, or has other values in.
"""

from __future__ import annotations

import base64
import difflib
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ci_compiler.adoption.checkouts import AdoptedCheckout, evaluate_all
from ci_compiler.adoption.evaluation import EvaluatedSource, Evaluation
from ci_compiler.adoption.evaluator import find_recipes, name_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, wrong
from ci_compiler.spec.build import bundled_spec
from ci_compiler.update.own import Wanted, sources_of, tried

RECIPES = ".flox/pkgs"
HASH = re.compile(r"sha(?:256|512)-[\w+/=]+|\b[0-9a-df-np-sv-z]{52}\b|\b[0-9a-f]{40}\b")
VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+(?:\.?(?:post|rc)\d+)?)(?![\w]|\.\d)")
STATED = re.compile(r"\b(?:version|rev|tag|\w*Version)\s*=\s*\"|/archive/[0-9a-f]{40}")

NAMED = re.compile(r"\b(?:bump|update|upgrade)\w*\b.*\d+\.\d+|\d -> v?\d", re.IGNORECASE)


class Bump(NamedTuple):
    """A commit that moves recipes: the files by path, before and after, and whether it does nothing else."""

    commit: str
    subject: str
    files: dict[str, tuple[str, str]]
    pure: bool


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True).stdout.decode(
        "utf-8", "replace"
    )


def bumps(folder: Path) -> Iterator[Bump]:
    for commit in git(folder, "rev-list", "--all", "--no-merges", "--reverse", "--", RECIPES).split():
        if git(folder, "rev-list", "--parents", "-1", commit).split()[1:]:
            names = git(folder, "diff", "--name-only", "--diff-filter=M", f"{commit}~", commit, "--", RECIPES)
            files = {
                name: (git(folder, "show", f"{commit}~:{name}"), git(folder, "show", f"{commit}:{name}"))
                for name in names.splitlines()
                if name.endswith(".nix")
            }
            pairs = [pair for two in files.values() for pair in changed(*two)]
            subject = git(folder, "log", "-1", "--format=%s", commit).strip()
            stated = any(STATED.search(new) and masked(old) == masked(new) and not same(old, new) for old, new in pairs)
            if not all(same(*pair) for pair in pairs) and (stated or NAMED.search(subject)):
                yield Bump(commit, subject, files, all(masked(old) == masked(new) for old, new in pairs))


def same(old: str, new: str) -> bool:
    """Whether two lines differ in hashes alone."""
    hashes = re.compile(r"sha(?:256|512)-[\w+/=]+|\b[0-9a-df-np-sv-z]{52}\b")
    return hashes.sub("@", old) == hashes.sub("@", new)


def masked(line: str) -> str:
    return VERSION.sub("@", HASH.sub("@", line))


def changed(old: str, new: str) -> Iterator[tuple[str, str]]:
    """The lines of `old` that differ, with those of `new` in their place, line by line; '' for none."""
    lines = old.splitlines(), new.splitlines()
    for kind, a, b, c, d in difflib.SequenceMatcher(None, *lines, autojunk=False).get_opcodes():
        if kind != "equal":
            length = max(b - a, d - c)
            rows = (part + [""] * (length - len(part)) for part in (lines[0][a:b], lines[1][c:d]))
            yield from zip(*rows, strict=True)


def wanted_of(bump: Bump, before: Evaluation, after: Evaluation, package: str) -> Wanted:
    """The release that the commit goes to."""
    old, new = (
        {f"{one.owner}/{one.repo}": one.rev for one in sources_of(each) if one.owner} for each in (before, after)
    )
    revisions = {name: new[name] for name in old if new.get(name, old[name]) != old[name]}
    versions = (before.version, after.version)
    if versions[0] == versions[1] or not versions[0].strip("0"):
        stated = Counter(
            (a[1], b[1])
            for lines in changed(*bump.files[key_of(bump, before.path)])
            for a, b in zip(VERSION.finditer(lines[0]), VERSION.finditer(lines[1]), strict=False)
            if masked(lines[0]) == masked(lines[1]) and a[1] != b[1]
        )
        versions = stated.most_common(1)[0][0] if stated else ("", "")
    upstream = "" if revisions or not versions[0] else f"upstream of {package}"  # none of its sources is of it
    revisions |= {upstream: versions[1]} if upstream else {}
    return Wanted(package=package, before=versions[0], after=versions[1], revisions=revisions, upstream=upstream)


def key_of(bump: Bump, path: Path) -> str:
    return next(name for name in bump.files if path.as_posix().endswith(name))


def verdict(old: str, new: str | None, right: str) -> str:
    if new is None or new == old:
        return "refused" if new is None else "no request"
    if new == right:
        return "reproduced"
    theirs = right.splitlines()
    kept = {*theirs, *map(masked, theirs)}
    missing = [(was, now) for was, now in changed(old, new) if now not in theirs]
    return "wrong" if any({was, masked(now)} & kept for was, now in missing) else "partial"


def taken_out(folder: Path, commit: str, to: Path) -> Path:
    to.mkdir()
    archive = subprocess.run(["git", "-C", str(folder), "archive", commit], check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", str(to)], input=archive, check=True)
    return to


def evaluated(folder: Path, recipes: list[Path]) -> Mapping[Path, Evaluation | Finding]:
    checkout = AdoptedCheckout(folder=folder, branch="", recipes=tuple(recipes))
    found, failed = evaluate_all([checkout], {path: path.name for path in recipes}, bundled_spec().hardware)
    return {**found, **failed}


def replayed(folder: Path, bump: Bump, scratch: Path) -> tuple[dict[str, str], list[str]]:
    """What became of each recipe, and what was refused."""
    old = taken_out(folder, f"{bump.commit}~", scratch / "old")
    new = taken_out(folder, bump.commit, scratch / "new")
    edited = [path for path in find_recipes(old) if path.relative_to(old).as_posix() in bump.files]
    before, after = evaluated(old, edited), evaluated(new, [new / path.relative_to(old) for path in edited])
    known: dict[tuple[str, str, str], str] = {}
    wanted, problems = {}, []
    for path in edited:
        one, other = before[path], after[new / path.relative_to(old)]
        if not isinstance(one, Evaluation) or not isinstance(other, Evaluation):
            problems.append(str(one if not isinstance(one, Evaluation) else other).replace(str(scratch), ""))
            continue
        wanted[name_of(path)] = wanted_of(bump, one, other, name_of(path).partition("-python")[0])
        known |= {(source.fetcher, source.url, source.rev): source.hash for source in sources_of(other)}

    def fetch(source: EvaluatedSource) -> str:
        found = known.get((source.fetcher, source.url, source.rev))
        if not found:
            raise wrong(source.url, Code.UPSTREAM_UNREACHABLE, "is not in the commit")
        if found.startswith("sha256-"):
            return found
        words = ["nix-hash", "--type", "sha256", "--to-base16", found]
        digest = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
        return f"sha256-{base64.b64encode(bytes.fromhex(digest)).decode()}"

    try:
        done = tried(old, wanted, bundled_spec().hardware, fetch) if wanted else None
    except InputError as error:
        problems += map(str, error.findings)
        done = None
    texts = {name: (done or {}).get(name, was) if done is not None else None for name, (was, _) in bump.files.items()}
    return {name: verdict(was, texts[name], right) for name, (was, right) in bump.files.items()}, problems


def named(folder: Path) -> str:
    """The name of the folder, or for a bare repository that of its parent folder."""
    return folder.parent.name if (folder / "HEAD").exists() else folder.name


def main(folders: list[str]) -> int:
    sums: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for folder in map(Path, folders):
        for bump in bumps(folder):
            try:
                with tempfile.TemporaryDirectory() as scratch:
                    found, problems = replayed(folder, bump, Path(scratch))
            except subprocess.CalledProcessError:
                print(f"{bump.commit[:9]}: the snapshot lacks some of its files")
                continue
            sums[bump.pure].update(found.values())
            kind = "pure" if bump.pure else "mixed"
            shown = ", ".join(f"{count} {what}" for what, count in Counter(found.values()).items())
            print(f"{named(folder)} {bump.commit[:9]} {kind}: {shown} ({bump.subject[:60]})", flush=True)
            for line in dict.fromkeys(problems[:3]):
                print(f"    {line[:300]}")
            for name, what in found.items():
                if what == "wrong":
                    print(f"    WRONG {name}")
    for pure, counts in sums.items():
        print(f"{'pure' if pure else 'mixed'}: {sum(counts.values())} files: {dict(counts)}")
    return int(any(counts["wrong"] for counts in sums.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
