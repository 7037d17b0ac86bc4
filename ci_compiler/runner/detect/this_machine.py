"""Records this machine: reads its files and runs its tools. `detect` makes a `Machine` of the record.

Nothing is decided here. A tool that is missing, cannot be started or does not answer in time is recorded as such.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from uuid import uuid4

from ci_compiler.hardware import Hardware
from ci_compiler.hardware.families.machines import known_machines
from ci_compiler.hardware.machine import Machine, StorageFolder
from ci_compiler.hardware.texts import MISSING, Answer, answer, printed, text_of
from ci_compiler.runner.detect.recorded import Mount, Recorded, build_folder, machine, mount_of, mounts
from ci_compiler.system import SYSTEM

ROOT = Path("/")
"""The parent of /proc, /sys and /etc."""

STORE = "/nix/store"

TRIAL = """\
derivation {
  name = "ci-runner-trial";
  system = builtins.currentSystem;
  builder = "/bin/sh";
  args = [ "-c" ''
    { printf '%s\\n' "$NIX_BUILD_TOP"; while read -r line; do printf '%s\\n' "$line"; done; } \\
      </proc/self/mountinfo >"$out"
  '' ];
  preferLocalBuild = true;
  allowSubstitutes = false;
  nonce = "NONCE";
}
"""
"""A build that needs nothing but a shell; its output is the build folder and what is mounted there.

The nonce makes each build a new one: a result that is already in the store proves nothing. The output takes a few
kilobytes of the store until the next garbage collection.
"""

TRIAL_SECONDS = 120

_ENGINES = {
    "podman": ("podman", "info", "--format", "{{.Version.Version}}"),
    "docker": ("docker", "version", "--format", "{{.Server.Version}}"),
}
"""Commands that print the version of an engine and fail if the engine does not work."""


def this_machine(hardware: Hardware, *, trial: bool = True, software: bool = True, engines: bool = False) -> Machine:
    """This machine. Without `trial`, nothing is built, and it is unknown whether builds are sandboxed.

    Without `software`, Nix and Flox are left out, without `engines` the container engines: each takes time to answer.
    """
    return machine(record(trial=trial, software=software, engines=engines), hardware)


def record(*, trial: bool = True, software: bool = True, engines: bool = False) -> Recorded:
    """Everything that the files and tools of this machine show; the parameters are those of `this_machine`."""
    uname = platform.uname()
    groups = [*control_groups("memory")]
    limits = [text_of(group / name) for group in groups for name in ("memory.max", "memory.limit_in_bytes")]
    texts = Recorded(
        machine=uname.machine,
        os_name=uname.system,
        kernel=uname.release,
        os_release=text_of(ROOT / "etc/os-release"),
        cpuinfo=text_of(ROOT / "proc/cpuinfo"),
        lscpu=(answer("lscpu") or MISSING).out,
        affinity=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        cpu_limits=tuple(_cpu_limits()),
        meminfo=text_of(ROOT / "proc/meminfo"),
        memory_limits=tuple(limits),
        gpus={family: known.record(ROOT) for family, known in known_machines().items()},
    )
    if software:
        texts = replace(
            texts,
            nix=answer("nix", "--version"),
            nix_config=_nix_config(),
            nix_conf=_nix_conf(),
            trial=trial_build() if trial else None,
            flox=answer("flox", "--version"),
        )
    if engines:
        shown = {name: answer(*command) for name, command in _ENGINES.items()}
        texts = replace(texts, engines={name: one for name, one in shown.items() if one is not None})
    return _with_folders(_asked(texts) if SYSTEM.processor else texts)


def _asked(texts: Recorded) -> Recorded:
    """`texts` with what programs print of the system, the processor and the memory, as the files of Linux have it."""
    model, memory = (printed(*command).strip() for command in (SYSTEM.processor, SYSTEM.memory))
    size = f"MemTotal: {int(memory) // 1024} kB\n" if memory.isdigit() else ""
    title = platform.platform(aliased=True, terse=True)
    return replace(texts, cpuinfo=f"model name : {model}\n", meminfo=size, os_release=f'PRETTY_NAME="{title}"\n')


def trial_build() -> Answer | None:
    """Builds `TRIAL`; the output of the answer is that of the build. None if there is no nix-build."""
    expression = TRIAL.replace("NONCE", uuid4().hex)
    made = answer("nix-build", "--no-out-link", "--expr", expression, seconds=TRIAL_SECONDS)
    if made is None or made.status != 0:
        return made
    output = text_of(made.out.strip())
    return Answer(status=0, out=output) if output else Answer(status=1, err="error: the build made nothing")


def folder(role: str, path: str, known: Sequence[Mount]) -> StorageFolder | None:
    """The folder at `path` (or its nearest parent that exists) with its file system; None if that is unknown."""
    place = Path(path).resolve()
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
        size, device = shutil.disk_usage(place), place.stat().st_dev
    except OSError:
        return None
    mount = mount_of(known, str(place))
    return StorageFolder(
        role=role,
        path=path,
        device=mount.device if mount else place.drive or str(device),
        kind=mount.kind if mount else "",
        size=size.total,
        free=size.free,
    )


def _with_folders(recorded: Recorded) -> Recorded:
    known = mounts(text_of(ROOT / "proc/self/mountinfo"))
    paths = {
        **({"store": STORE} if Path(STORE).is_absolute() else {}),  # Windows has no such path, and no Nix
        "build": build_folder(recorded, known, os.environ.get("TMPDIR", gettempdir())),
        "work": os.environ.get("GITHUB_WORKSPACE", str(Path.cwd())),
    }
    return replace(recorded, folders=tuple(filter(None, (folder(role, path, known) for role, path in paths.items()))))


def _nix_config() -> Answer | None:
    """The effective settings; Nix 2.20 renamed the command that prints them."""
    with_commands = f"{os.environ.get('NIX_CONFIG', '')}\nextra-experimental-features = nix-command"
    env = {**os.environ, "NIX_CONFIG": with_commands}
    settings = answer("nix", "config", "show", "--json", env=env)
    return settings if settings is None or not settings.status else answer("nix", "show-config", "--json", env=env)


def _nix_conf() -> str:
    """The configuration of Nix, later parts override earlier ones: system file, user file, environment."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path(os.environ.get("HOME", "/"), ".config")
    files = (Path(os.environ.get("NIX_CONF_DIR", "/etc/nix"), "nix.conf"), Path(home, "nix", "nix.conf"))
    return "\n".join(filter(None, [*map(text_of, files), os.environ.get("NIX_CONFIG", "")]))


# Control groups: version 2 has one tree, version 1 one tree per controller.


def _cpu_limits() -> Iterator[str]:
    for group in control_groups("cpu"):
        yield text_of(group / "cpu.max")
        yield f"{text_of(group / 'cpu.cfs_quota_us').strip()} {text_of(group / 'cpu.cfs_period_us').strip()}"


def control_groups(controller: str, process: str = "self") -> Iterator[Path]:
    """The folders of a process's control groups for `controller` and of their parents, if they are visible."""
    tree = ROOT / "sys/fs/cgroup"
    for line in text_of(ROOT / "proc" / process / "cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controller in controllers.split(",") or not controllers:
            base = tree / controller if controllers else tree
            below = base / path.lstrip("/")
            yield from (place for place in (below, *below.parents) if place.is_relative_to(base) and place.is_dir())
