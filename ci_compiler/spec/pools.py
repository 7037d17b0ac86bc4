"""The keys of a spec about machines: pools, the label sets that they serve, publishing and the binary cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from ci_compiler.backends.protocol import CachePush
from ci_compiler.spec.declare import declared, form, key
from ci_compiler.spec.forms import (
    Amount,
    CacheUrl,
    Gigabytes,
    IsaNames,
    Label,
    LabelSet,
    PoolName,
    PublicKey,
    ScaleSetName,
    Word,
)
from ci_compiler.stages import PUBLISH, Stage, TestPolicy, default_stages, stages, stages_that_test

NIXOS_CACHE = "https://cache.nixos.org"
"""The cache of nixpkgs, which Nix asks and trusts by default."""


@declared(required=["group"])
class RunsOn:
    """How a job addresses machines: by the labels of runners, within a group or not.

    In place of both, `scale_set` is the name of a runner scale set.
    """

    group: Annotated[str, form(pattern="^[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}$")] = key(default="")
    labels: Annotated[tuple[Label, ...], form(maxItems=20)] = key(default=(), published=False)
    scale_set: str = ""

    def __str__(self) -> str:
        words = [*([f"group {self.group}"] if self.group else []), *self.labels]
        return self.scale_set or ", ".join(words)


def _runs_on(value: str | list[str] | Mapping[str, Any]) -> RunsOn:
    if isinstance(value, str):
        return RunsOn(scale_set=value)
    if isinstance(value, list):
        return RunsOn(labels=tuple(value))
    return RunsOn(labels=tuple(value.get("labels", ())), group=value["group"])


def _names(listed: tuple[Stage, ...]) -> str:
    *first, last = (str(stage) for stage in listed if not stage.is_optional)
    return f"{', '.join(first)} and {last}"


def _optional() -> str:
    return " and ".join(str(stage) for stage in stages() if stage.is_optional)


@declared(anyOf=[{"required": ["hosted"]}, {"required": ["runs-on"]}])
class Pool:
    """A pool of like machines: how a job addresses them, and what they have."""

    name: str
    runs_on: RunsOn = key(
        "How a job addresses the pool.",
        title="a list of labels, {group, labels}, or the name of a runner scale set",
        written=LabelSet | ScaleSetName | RunsOn,
        convert=_runs_on,
        default=RunsOn(),
        published=False,
        examples=[
            ["self-hosted", "linux", "x64", "nix-builder"],
            "arc-gpu-sm90",
            {"group": "gpu", "labels": ["self-hosted", "linux", "x64"]},
        ],
    )
    hosted: Word = key(
        "The label of a machine that GitHub hosts, in place of `runs-on`; its system and size are known.",
        default="",
        examples=["ubuntu-24.04", "macos-26", "windows-2025"],
    )
    system: str = key(
        "Nix system of its machines; from the label x64 or arm64, if not given.",
        title="a Nix system",
        examples=["x86_64-linux"],
        default="",
    )
    builds: tuple[Word, ...] = key(
        "Further platforms that it builds for (cross-compilation). Tests need a pool of it, or one that `runs` it.",
        default=(),
        published=False,
        examples=[["aarch64-android"]],
    )
    runs: tuple[Word, ...] = key(
        "Further platforms whose results its machines build and run, such as another libc, 32 bits or WebAssembly.",
        default=(),
        published=False,
        examples=[["x86_64-musl"]],
    )
    stages: tuple[Stage, ...] = key(
        f"Stages that it may run. Left out: {_names(default_stages(gpu=False))}; with a GPU: "
        f"{_names(default_stages(gpu=True))}, and {_optional()} where `tests` switches it on. If a pool runs {PUBLISH} "
        "alone, the others leave it out.",
        title=f"a list of stages ({', '.join(map(str, stages()))})",
        minItems=1,
        default=(),
        published=False,
    )
    cpu: IsaNames = key("ISAs that its CPUs have; an ISA implies those that it includes.", default=())
    gpu: Word = key("GPU architecture of its GPUs.", examples=["sm90"], default="")
    accelerator: str = key(
        "The accelerator of its machines, in place of `gpu`: a family, and the target if it has any.",
        title="a family and a target (rocm gfx942), or a family (rocm)",
        pattern="^[a-z][a-z0-9_]*( [A-Za-z0-9][A-Za-z0-9_:.+-]*)?$",
        examples=["rocm gfx942", "rocm"],
        default="",
    )
    gpus: int = key(
        "Number of GPUs of a machine that has any.", title="the number of GPUs", minimum=1, maximum=64, default=1
    )
    count: int = key(
        "Number of machines in the pool.", title="the number of machines", minimum=1, maximum=10000, default=1
    )
    cores: int = key("Cores of a machine.", title="the number of cores", minimum=1, maximum=4096, default=32)
    memory: Gigabytes = key("Memory of a machine, in GB.", maximum=100000, default=64)
    disk: Gigabytes = key("Disk of a machine for builds and the store, in GB.", maximum=1000000, default=200)
    image: str = key(
        "Container image of its runners. Left out: the owner's `ci-builder` (with a GPU: `ci-gpu-tester`) of the "
        "compiler's version.",
        title="a container image (HOST/PATH:TAG, or @sha256:…)",
        pattern="^[a-z0-9][a-z0-9._/:-]*(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?$",
        maxLength=300,
        examples=["ghcr.io/my-org/ci-builder:0.1.0"],
        default="",
    )

    @property
    def only_publishes(self) -> bool:
        """Whether it builds and tests nothing."""
        return self.stages == (PUBLISH,)


@declared()
class Publish:
    """When a variant is published, and what must come first."""

    after: tuple[Annotated[Stage, form(enum=list(map(str, stages_that_test())))], ...] = key(
        "Tests that must have passed first, where a pool runs them.",
        default=tuple(stage for stage in stages_that_test() if stage.policy is not TestPolicy.NEVER),
    )
    environment: str = key(
        "GitHub environment that holds the publishing secret.",
        title="the name of a GitHub environment (letters, digits, _ and -)",
        pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$",
        default="publish",
    )
    on_shared_machines: bool = key(
        "Whether a pool that builds or tests may also publish. Code that was built or tested there can then reach the "
        "publishing secret if it breaks out of its container, or through a hole in Nix.",
        default=False,
    )
    on_push: bool = key("Whether a push to a mapped branch publishes what it rebuilt.", default=True)
    reviewers: bool = key(
        "Whether the environment has required reviewers. If so, a run does not check the secret before it builds, so "
        "that no build waits for an approval.",
        default=False,
    )


@declared()
class Prices:
    """What machines cost. The forecast, `diff` and the status page then say what builds cost."""

    currency: Annotated[str, form(pattern="^[A-Z]{3}$", title="the code of a currency (EUR, USD)")] = key(
        "Code of the currency of all amounts.", examples=["EUR"]
    )
    machine_hour: Mapping[PoolName, Amount] = key(
        "Price of one hour of one machine, by pool. Other machines cost nothing; in USD, those of `hosted` pools have "
        "GitHub's price.",
        default={},
        examples=[{"x86-builder": "2.40"}],
    )
    hosted_minute: Amount = key(
        "Price of one minute of a machine hosted by GitHub, which counts each job up to the full minute.",
        default="0",
        examples=["0.008"],
    )


@declared()
class Cache:
    """A Nix binary cache that closures travel through from machine to machine."""

    url: CacheUrl = key(
        "Where closures are copied to and fetched from.",
        examples=["s3://my-cache?region=eu-central-1"],
    )
    public_key: PublicKey = key("The key that its paths are signed with.")
    further_keys: tuple[PublicKey, ...] = key(
        "Further keys whose signatures count, while users move from one key to the next.",
        default=(),
        examples=[["my-cache-0:0f8Hk9JvJ9bGmYVvHyuZQ6lZkkYHkS7pq2LZ4wWrbSg="]],
    )
    builder_keys: tuple[PublicKey, ...] = key(
        "The keys with which builders' Nix daemons sign what they build. All runners' daemons trust them, so that "
        "tests can fetch a build before it is published.",
        default=(),
        examples=[["builder-1:0f8Hk9JvJ9bGmYVvHyuZQ6lZkkYHkS7pq2LZ4wWrbSg="]],
    )
    public: bool = key("Whether anyone may fetch from it.", default=False)
    staging: CacheUrl = key(
        "Where builds travel from machine to machine before they are published; the cache itself, if not given.",
        examples=["s3://my-staging?region=eu-central-1"],
        default="",
    )
    staging_days: int = key(
        "For how many days builds are kept there. This is enforced for `file://`; a bucket needs a rule of its own.",
        minimum=1,
        default=14,
    )
    push: CachePush = key(
        "What is copied into it: `all` of a build's closure, or only its `own` part, without what the caches in "
        "`others` serve and without NVIDIA's libraries that `redistributes` does not name.",
        default=CachePush.ALL,
    )
    others: tuple[CacheUrl, ...] = key(
        "The caches whose paths `push: own` leaves out. Machines and users must be able to fetch from them.",
        default=(NIXOS_CACHE,),
    )
    redistributes: tuple[Annotated[str, form(pattern="^[a-z0-9]+$", title="the name of a product of NVIDIA")], ...] = (
        key(
            "Products of NVIDIA that the owner of the cache may redistribute, by the name of their folder on NVIDIA's "
            "download server.",
            default=(),
            examples=[["cuda", "cudnn"]],
        )
    )

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys whose signatures count, the one that signs first."""
        return (self.public_key, *self.further_keys)
