"""`python -m tests.fuzz.generated [READER] --count N`: gives each reader N generated inputs, and counts what breaks it.

The inputs are the reader's seeds with changed values, keys and bytes; the same number gives the same inputs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from tests.fuzz.readers import READERS, Reader, broken_by

ODD: tuple[Any, ...] = (
    None, True, 0, -1, 7, 2**63, 10**30, 10**400, 1e300, float("inf"), float("nan"), "", "x", "é", "\ud800", "\x1b[31m",
    "\0", "../..", "a" * 300, "9" * 5000, "2026-13-45", [], {}, [[]], [None], {"": None}, [[[[[[]]]]]],
)  # fmt: skip
"""Values that no writer means."""

BYTES = (
    b"\xff",
    b"\xc3",
    b"\0",
    b"\x1b",
    b"\r",
    b"\n",
    b"[",
    b"{",
    b'"',
    b"<",
    b"&",
    b"9" * 400,
    b"[" * 2000,
    b" " * 5000,
)
"""Bytes that a text is given anywhere."""

SLOWEST = 5.0
"""Seconds of work after which an input counts as one that hangs the reader."""


class Outcome(NamedTuple):
    """The result of one reader: its inputs, the seconds of all and of the slowest, what broke it with an example."""

    inputs: int
    seconds: float
    slowest: float
    broken: Counter[str]
    examples: dict[str, bytes]


def inputs(reader: Reader, count: int, seed: int = 0) -> Iterator[bytes]:
    """`count` inputs for `reader`."""
    random = Random(seed)  # noqa: S311 - nothing is secret
    yield from reader.seeds
    for _ in range(count - len(reader.seeds)):
        data = random.choice(reader.seeds)
        if random.random() < 0.7:
            data = _with_odd_values(data, random)
        if random.random() < 0.4:
            data = _with_odd_bytes(data, random)
        yield data


def _with_odd_values(data: bytes, random: Random) -> bytes:
    """`data` with some of its values changed, if it is JSON."""
    try:
        value = json.loads(data)
    except ValueError:
        return _with_odd_bytes(data, random)
    for _ in range(random.randint(1, 3)):
        value = _changed(value, random)
    return json.dumps(value, ensure_ascii=random.random() < 0.8).encode("utf-8", "surrogatepass")


def _changed(value: Any, random: Random) -> Any:
    """`value` with one change: of itself, or of something in it."""
    if not value or not isinstance(value, dict | list) or random.random() < 0.1:
        return random.choice(ODD)
    at = random.choice(list(value)) if isinstance(value, dict) else random.randrange(len(value))
    made = value.copy()
    match random.randint(0, 9):
        case 0:
            del made[at]
        case 1 if isinstance(made, dict):
            made[random.choice(["", "x", "\ud800", "a" * 300, at.upper()])] = made.pop(at)
        case 2 if isinstance(made, list):
            made += made[:3]
        case _:
            made[at] = _changed(value[at], random)
    return made


def _with_odd_bytes(data: bytes, random: Random) -> bytes:
    """`data` with some of its bytes replaced, repeated or removed."""
    for _ in range(random.randint(1, 4)):
        at, length = random.randint(0, len(data)), random.choice([0, 1, 1, 4, 40])
        new = random.choice([b"", random.choice(BYTES), random.randbytes(3), data[:length] * 3])
        data = data[:at] + new + data[at + length :]
    return data


def outcome(reader: Reader, count: int, seed: int = 0) -> Outcome:
    """What `count` inputs do to `reader`."""
    broken: Counter[str] = Counter()
    examples: dict[str, bytes] = {}
    slowest = total = 0.0
    for data in inputs(reader, count, seed):
        start = time.process_time()
        said = broken_by(reader, data)
        took = time.process_time() - start
        total, slowest = total + took, max(slowest, took)
        if took > SLOWEST:
            said = said or f"took {took:.1f} s"
        if said:
            broken[said.partition(":")[0]] += 1
            examples.setdefault(said.partition(":")[0], data[:2000] + said.encode("utf-8", "replace"))
    return Outcome(count, total, slowest, broken, examples)


def main() -> None:
    """Prints a line per reader."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.generated", description=__doc__.partition("\n")[0])
    parser.add_argument("readers", nargs="*", choices=[*READERS, []], metavar="READER", help=", ".join(READERS))
    parser.add_argument("--count", type=int, default=100_000, metavar="N", help="inputs for each; 100000")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first state of the generator; 0")
    arguments = parser.parse_args()
    for name in arguments.readers or READERS:
        found = outcome(READERS[name], arguments.count, arguments.seed)
        print(
            f"{name:10} {found.inputs:>8,} inputs {found.seconds:>8.1f} s, slowest {found.slowest:.3f} s, broken: ",
            end="",
        )
        print(dict(found.broken) or "none", flush=True)
        for example in found.examples.values():
            print(f"  {example!r}", flush=True)


if __name__ == "__main__":
    main()
