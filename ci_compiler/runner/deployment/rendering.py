"""The files of a deployment, rendered from the templates in `templates/TARGET`.

A template whose path contains `POOL` becomes one file per pool, any other one file; a file without text is left out.
`@word@` is replaced by the fact of that name, `@if word@ … @end@` is kept if the fact is not empty, and
`@each pool@ … @end@` is repeated for every pool. A line that begins with `@#` is a remark on the template.

It takes the place of a template engine: braces and percent signs belong to Nix, YAML and systemd in these files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ci_compiler.spec.placeholders import fill

Facts = Mapping[str, str]
"""What templates may show, by name."""

FOLDER = Path(__file__).with_name("templates")

_REMARK = re.compile(r"^@#.*\n", re.MULTILINE)
_BLOCK = re.compile(r"@(if|each) ([a-z-]+)@(\n?)(.*?)@end@\3", re.DOTALL)


def render(target: str, facts: Facts, pools: Sequence[Facts]) -> Iterator[tuple[str, str]]:
    """The path and text of each file of `target`. `pools`: the facts about each pool, its name as `pool` among them."""
    folder = FOLDER / target
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name, template = path.relative_to(folder).as_posix(), text_of(path)
        if "POOL" in name:
            yield from (
                (name.replace("POOL", pool["pool"]), _filled(template, {**facts, **pool}, ())) for pool in pools
            )
        elif text := _filled(template, facts, pools):
            yield name, text


def text_of(path: Path) -> str:
    """A template without its remarks."""
    return _REMARK.sub("", path.read_text("utf-8"))


def _filled(template: str, facts: Facts, pools: Sequence[Facts]) -> str:
    """`template` with its blocks and words replaced. Values are not read as templates. Raises KeyError."""
    made, end = "", 0
    for block in _BLOCK.finditer(template):
        made += fill(template[end : block.start()], facts)
        kind, name, _, body = block.groups()
        if kind == "each":
            made += "".join(fill(body, {**facts, **pool}) for pool in pools)
        elif facts[name]:
            made += fill(body, facts)
        end = block.end()
    return made + fill(template[end:], facts)
