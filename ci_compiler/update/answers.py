"""Answers about a fleet, written into the text of a starter's spec.

Each function takes the starter's spec, its text and an answer as people type or paste it, and returns the text with the
answer. It raises InputError about the option that gives the answer. An answer of nothing keeps what the starter has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from ci_compiler.adoption.spec_yaml import entry, flow
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.hardware import CPU, Hardware, UnknownHardwareError, pasted, products
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.hardware.machine import GpuDevice
from ci_compiler.spec.model import Spec

Answered = Callable[[Spec, str, str], str]
"""The text of a spec with an answer: from the starter's spec, its text, and the answer."""

OWNER, GPUS, BUILDER, PUBLISH_TO, TOOLKIT = "--owner", "--gpus", "--builder", "--publish-to", "--toolkit"

GITHUB = "github"
"""The answer for a machine of GitHub that builds."""

FLOXHUB = "floxhub"
"""The answer for results that are published to FloxHub."""

_PLACEHOLDER = "owner: my-org"
_HOSTED = "ubuntu-24.04"
_SYSTEM, _ARM = "x86_64-linux", "aarch64-linux"
"""The system of every starter's machines, and the other one that they can have."""

_OF_ARM = {_SYSTEM: _ARM, "x86-": "arm-", ", x64,": ", arm64,"}
"""What machines with ARM have in place of what the starters have: systems, names of pools, labels."""

_GPU_ROWS = re.compile(r"^  gpus:.*\n(?P<rows>(?:    .*\n)+)", re.MULTILINE)
_GPU_POOL = re.compile(r"^  [\w-]+: \{runs-on: .*\b(?:gpu|accelerator): .*\}\n", re.MULTILINE)
_TARGETS = re.compile(r"^    accelerator: \[(?P<toolkit>\w+ [\d.]+) .*?(?P<cpu>, cpu)?\]", re.MULTILINE)
_BUILDER = re.compile(r"^  x86-builder:(?: .*)?\n(?:    .*\n)*", re.MULTILINE)

_TOOLKIT = """
# Hosted jobs install ci-compiler from here. Remove it to install a release from the package index.
toolkit: {}
"""


def with_owner(_: Spec, text: str, answer: str) -> str:
    """The owner of the repository and of what it publishes."""
    return text.replace(_PLACEHOLDER, f"owner: {answer}")


def with_toolkit(_: Spec, text: str, answer: str) -> str:
    """Where hosted jobs install ci-compiler from; '': a release from the package index."""
    return text + _TOOLKIT.format(answer) if answer else text


def with_branch(text: str, branch: str) -> str:
    """The starter's only branch under another name; '' keeps it."""
    return text.replace("\n  main:\n", f"\n  {flow(branch)}:\n", 1) if branch else text


def with_gpus(spec: Spec, text: str, answer: str) -> str:
    """GPUs by their products, or what `nvidia-smi -L` prints of them: rows of the matrix, and a pool for each."""
    if not answer:
        return text
    devices: dict[str, GpuDevice] = {}
    for device in _devices(spec.hardware, answer):
        devices.setdefault(device.target or device.sm, device)
    if named := _TARGETS.search(text):
        family = family_of(named["toolkit"].split()[0])
        if not devices and not named["cpu"]:
            message = f"the template builds for GPUs alone; name a GPU, such as {family.example}"
            raise wrong(GPUS, Code.WRONG_OPTION, message)
        rows = flow([*(f"{named['toolkit']} {target}" for target in devices), *([CPU] if named["cpu"] else [])])
        text = text.replace(named[0], f"    accelerator: {rows}")
        key, before = "accelerator", f"{family.name} "
    else:
        key, family, before = "gpu", family_of(DEFAULT), ""
        match = _GPU_ROWS.search(text)
        old = match["rows"] if match else ""
        cpu = "    cpu:\n" if f"    {CPU}:" in old or not devices else ""
        new = [line for gpu in devices for line in entry(gpu, {}, "    ", spec.hardware.gpu(gpu).summary)]
        text = text.replace(old, cpu + "".join(f"{line}\n" for line in new))
    text = _GPU_POOL.sub("", text)
    cpu_of = [isa for pool in spec.pools for isa in pool.cpu][:1]
    pools = (
        entry(
            _pool_name(spec.hardware, target, device.name),
            {
                "runs-on": ["self-hosted", "linux", "x64", f"gpu-{target}"],
                key: f"{before}{target}",
                **({"cpu": cpu_of} if cpu_of else {"stages": ["gpu-test"]}),
            },
            "  ",
        )
        for target, device in {family.named(target): device for target, device in devices.items()}.items()
    )
    return text + "".join(f"{line}\n" for pool in pools for line in pool)


def _devices(hardware: Hardware, answer: str) -> Iterable[GpuDevice]:
    found = pasted.read(hardware, answer)
    names = found.gpus or (() if found.none else tuple(filter(None, map(str.strip, re.split(r"[,\n]", answer)))))
    try:
        return [device for name in names if (device := products.device(hardware, name))]
    except UnknownHardwareError as error:
        raise wrong(GPUS, error.code, str(error)) from None
    except ValueError as error:
        raise wrong(GPUS, Code.WRONG_HARDWARE, str(error)) from None


def _pool_name(hardware: Hardware, target: str, product: str) -> str:
    """The name of the pool of a GPU: its product without vendor and size, or else its target."""
    row = hardware.gpus.get(target)
    known = [name for name in row.products if name.lower() in product.lower()] if row else []
    return re.sub(r"[^a-z0-9]+", "-", max(known, key=len, default=target).lower())


def with_builder(spec: Spec, text: str, answer: str) -> str:
    """The machine that builds: its CPU, or `github`. All machines are taken to have that CPU."""
    if not answer:
        return text
    if answer.lower() == GITHUB:
        return _BUILDER.sub(f"  x86-builder: {{hosted: {_HOSTED}}}\n", text)
    hardware = spec.hardware
    try:
        cpu = products.cpu(hardware, pasted.read(hardware, answer).cpu or answer)
    except UnknownHardwareError as error:
        raise wrong(BUILDER, error.code, f"{error}; or {GITHUB}") from None
    except ValueError as error:
        raise wrong(BUILDER, Code.WRONG_HARDWARE, str(error)) from None
    if cpu.system not in {_SYSTEM, _ARM}:
        message = f"{cpu.name} is a CPU of {cpu.system}; the starters are for {_SYSTEM} and {_ARM}: edit the spec"
        raise wrong(BUILDER, Code.WRONG_HARDWARE, message)
    included = {name for isa in cpu.isas for name in hardware.isa(isa).includes}
    text = re.sub(r"\bcpu: \[[\w, ]*\]", f"cpu: {flow([isa for isa in cpu.isas if isa not in included])}", text)

    def runs(found: re.Match[str]) -> str:
        kept = [isa for isa in re.findall(r"\w+", found[2]) if isa in cpu.isas]
        return f"{found[1]}{flow(kept or cpu.isas[-1:])}"

    text = re.sub(rf"^( *(?:{_SYSTEM}|isa): )\[(.*)\]", runs, text, flags=re.MULTILINE)
    for ours, arms in _OF_ARM.items() if cpu.system == _ARM else ():
        text = text.replace(ours, arms)
    return text


def with_destination(spec: Spec, text: str, answer: str) -> str:
    """Where results go: to FloxHub, or the address and the public key of a Nix binary cache."""
    if not answer or answer.lower() == FLOXHUB:
        return text
    url, _, key = answer.partition(" ")
    if not spec.backend.has_recipes or "://" not in url or not key.strip():
        what = f"{FLOXHUB}, or the address and the public key of a Nix binary cache, with a blank between"
        own = "this starter's packages are published by their own commands; leave the option out"
        raise wrong(PUBLISH_TO, Code.WRONG_VALUE, f"{answer!r} is not {what}" if spec.backend.has_recipes else own)
    cache = "".join(f"{line}\n" for line in entry("cache", {"url": url, "public-key": key.strip()}))
    return text.replace("version: 1\n", "version: 1\nbackend: nix\n", 1) + f"\n{cache}"
