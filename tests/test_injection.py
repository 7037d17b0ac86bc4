"""Specs that try to inject: their texts come out as data or are refused, as the parser of each format confirms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt
from ruamel.yaml import YAML

from ci_compiler.documents.site.page import page
from ci_compiler.errors import InputError
from ci_compiler.plan.pipeline import plan
from ci_compiler.recipes.render import recipes
from ci_compiler.runner.deployment.kinds import deployment
from ci_compiler.spec.model import Spec
from ci_compiler.sync.compiled import compile_files
from tests.checkers import require, scripts
from tests.checkers.tools import run
from tests.loops import each
from tests.specs import CACHE, PIN, small, spec_of

HOSTILE = (
    'a" b',
    "a' b",
    "a`id`b",
    "a$(id)b",
    "a;id",
    "a${{ github.token }}b",
    "a''${builtins.abort \"x\"}b",
    'a${builtins.abort "x"}b',
    "a''; evil = true; b = ''",
    'a"; evil = true; b = "',
    "aaa\\",
    "a */ b",
    "a --> <script>alert(1)</script>",
    "a</script><script>alert(1)</script>",
    "a | b [c](javascript:alert(1))",
    "a #b: c",
    "a\nb: c",
    "a\r\nb",
    "a\x1b[31mb",
    "a\u202eb",
    "a\u2028b",
    "a\u0085b",
    "-rf",
    "../../b",
    "@@title@@ @script@ @title@",
)
"""Texts that would mean something in YAML, a shell, Nix, Markdown or HTML if anything let them."""

TITLES = [text for text in HOSTILE if text.isprintable()]
"""Those that are valid in a line of free text; they come out as data everywhere."""


def _set(path: str, text: str) -> dict[str, Any]:
    """The small spec with `text` at `path`, whose last word `KEY` stands for a key."""
    document: Any = small(cache={"url": "s3://c", "public-key": f"n:{'A' * 44}"})
    *way, last = path.split("/")
    at = document
    for word in way:
        at = at.setdefault(word, {}) if isinstance(at, dict) else at[int(word)]
    if last == "KEY":
        at[text] = at.pop(next(iter(at)))
    elif isinstance(at, list):
        at[int(last)] = text
    else:
        at[last] = text
    return dict(document)


NAMES = (
    "owner",
    "hosted",
    "toolkit",
    "branches/KEY",
    "branches/main/cuda",
    "branches/main/nixpkgs",
    "branches/main/nixpkgs-hash",
    "branches/main/versions/pytorch",
    "branches/main/pnames/pytorch",
    "branches/main/work-arounds",
    "packages/KEY",
    "packages/pytorch/attribute",
    "packages/torchvision/needs/0",
    "matrix/python/0",
    "matrix/isas/KEY",
    "matrix/isas/x86_64-linux/0",
    "matrix/gpus/KEY",
    "runners/KEY",
    "runners/builder/runs-on",
    "runners/builder/runs-on/0",
    "runners/builder/system",
    "runners/builder/cpu/0",
    "runners/builder/image",
    "runners/h100/gpu",
    "publish/environment",
    "cache/url",
    "cache/public-key",
)
"""Every place of a spec that takes a word, and that outputs carry on."""


@pytest.mark.parametrize("path", NAMES)
def test_no_name_version_label_or_address_takes_hostile_text(path: str) -> None:
    for text in each(HOSTILE):
        with pytest.raises(InputError):
            plan(spec_of(_set(path, text)))


SOURCE = {"repository": "a/b", "tag": "v1", "hash": f"sha256-{'A' * 43}="}


@pytest.mark.parametrize("key", SOURCE)
def test_no_source_takes_hostile_text(key: str) -> None:
    for text in each(HOSTILE):
        with pytest.raises(InputError):
            spec_of(_set("branches/main/sources", "") | small(branches={"main": _branch({**SOURCE, key: text})}))


def _branch(source: dict[str, str]) -> dict[str, Any]:
    return {"cuda": "12.8", "nixpkgs": PIN, "versions": {"pytorch": "2.8.0"}, "sources": {"pytorch": source}}


@pytest.mark.parametrize("text", sorted(set(HOSTILE) - set(TITLES)), ids=ascii)
def test_text_with_control_characters_is_refused_everywhere(text: str) -> None:
    for document in (_set("packages/pytorch/title", text), _excluding(text)):
        with pytest.raises(InputError):
            spec_of(document)


def _excluding(because: str) -> dict[str, Any]:
    return small(matrix={**small()["matrix"], "exclude": [{"variants": "torchvision-*-avx2", "because": because}]})


def _titled(text: str) -> Spec:
    """A spec with `text` wherever it takes any text: the titles of packages, the reason of an exclusion."""
    packages = {"pytorch": {"attribute": "torch", "title": text}, "torchvision": {"needs": ["pytorch"], "title": text}}
    return spec_of(_excluding(text) | {"packages": packages} | CACHE)


ALL = _titled(" ".join(TITLES)[:60]), *map(_titled, TITLES)


def test_workflows_with_hostile_titles_are_the_workflows_without() -> None:
    plain = _parsed(compile_files(plan(_titled("plain"))))
    for text, spec in each(zip(TITLES, ALL[1:], strict=True)):
        for path, value in each(_parsed(compile_files(plan(spec))).items()):
            assert _shape(value) == _shape(plain[path]), (text, path)


def _parsed(files: Any) -> dict[str, Any]:
    """The YAML files as PyYAML (1.1) and ruamel (1.2) read them, who agree."""
    made = {}
    for path, text in files.items():
        if path.endswith((".yml", ".yaml")):
            made[path] = yaml.safe_load(text)
            new = YAML(typ="safe", pure=True).load(text)
            assert json.dumps(_on(new)) == json.dumps(_on(made[path])), path
    return made


def _on(value: Any) -> Any:
    """YAML 1.1 reads the key `on` as true."""
    return {("on" if key is True else key): item for key, item in value.items()} if isinstance(value, dict) else value


def _shape(value: Any) -> Any:
    """A tree without its texts: the structure, which a text could change only if it were more than data."""
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return list(map(_shape, value)) if isinstance(value, list) else type(value).__name__


def test_no_script_of_a_workflow_contains_text_of_the_spec(tmp_path: Path) -> None:
    def written(spec: Spec, folder: Path) -> list[str]:
        folder.mkdir()
        found = []
        for path, text in compile_files(plan(spec)).items():
            if path.endswith(".yml"):
                file = folder / path.replace("/", "_")
                file.write_text(text, "utf-8")
                found += [script.text for script in scripts(file)]
        return found

    plain = written(_titled("plain"), tmp_path / "plain")
    for number, spec in each(enumerate(ALL)):
        assert written(spec, tmp_path / str(number)) == plain


def test_recipes_with_hostile_titles_parse_and_say_them(tmp_path: Path) -> None:
    program = require("nix-instantiate")
    for number, spec in enumerate(ALL):
        for path, text in recipes(spec, plan(spec).judged, "main").items():
            if path.endswith("pytorch-python313-cuda12_8-sm90-avx2.nix"):
                (tmp_path / f"{number}.nix").write_text(text, "utf-8")
    files = sorted(tmp_path.iterdir(), key=lambda path: int(path.stem))
    assert len(files) == len(ALL)
    for file in files:
        parsed = run([program, "--parse", file]).stdout
        assert " evil = " not in re.sub(r'"(?:[^"\\]|\\.)*"', '""', parsed), file.read_text("utf-8")
        assert "abort" not in re.sub(r'"(?:[^"\\]|\\.)*"', '""', parsed), file.read_text("utf-8")


class _Elements(HTMLParser):
    """The elements of a page, and the content of its data script."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(name for name, _ in attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.seen and self.seen[-1][0] == "script":
            self.scripts[-1] += data


def _elements(spec: Spec) -> _Elements:
    made = _Elements()
    made.feed(page(plan(spec), "my-org/build-pytorch"))
    return made


def test_the_page_has_the_same_elements_and_contains_hostile_titles_as_data() -> None:
    plain = _elements(_titled("plain"))
    for text, spec in each(zip(TITLES, ALL[1:], strict=True)):
        made = _elements(spec)
        assert made.seen == plain.seen, text
        held = [script for script in made.scripts if script.strip().startswith("{")]
        assert len(held) == 1
        assert text in list(_texts(json.loads(held[0]))), text


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _markdown(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """A document's elements, as GitHub would have them, and the texts in them."""
    inlines = [token.children or [] for token in MARKDOWN.parse(text) if token.type == "inline"]
    elements = [(token.type, token.tag) for token in MARKDOWN.parse(text)]
    elements += [(one.type, one.tag) for line in inlines for one in line if one.type != "text"]
    return elements, ["".join(one.content for one in line) for line in inlines]


MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def test_the_build_matrix_has_the_same_elements_and_says_hostile_reasons() -> None:
    plain, _ = _markdown(compile_files(plan(_titled("plain")))[".github/BUILD_MATRIX.md"])
    for text, spec in each(zip(TITLES, ALL[1:], strict=True)):
        elements, said = _markdown(compile_files(plan(spec))[".github/BUILD_MATRIX.md"])
        if "@" in text:  # GitHub would take it for a mention, so it becomes code
            assert _without_code(elements) == _without_code(plain), text
        else:
            assert elements == plain, text
        assert any(text in line for line in said), text


def _without_code(elements: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [element for element in elements if element != ("code_inline", "code")]


def test_deployments_contain_no_titles() -> None:
    for target in ("arc", "systemd"):
        plain = deployment(_titled("plain"), target, scale_set_labels=target == "arc")
        for spec in each(ALL):
            assert deployment(spec, target, scale_set_labels=target == "arc").files == plain.files
