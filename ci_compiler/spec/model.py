"""The spec: its keys, each declared once, and the model that the rest of the compiler works with.

A field made by `key` is a key of the file, with the description, form and default that the JSON Schema publishes. A
`Spec` that `build` returns is complete, with every default filled in, and names nothing unknown.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Literal

from ci_compiler import __version__
from ci_compiler.backends import backends
from ci_compiler.backends.protocol import Backend
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, unknown
from ci_compiler.hardware import Hardware
from ci_compiler.spec.axes import (
    NO_ACCELERATOR,
    SHORT_FAMILY,
    Accelerator,
    AcceleratorRow,
    AxisRow,
    AxisRows,
    Exclusion,
    Matrix,
    SettingRow,
    SettingRows,
    axis_rows,
    python_order,
    setting_rows,
)
from ci_compiler.spec.command import Command
from ci_compiler.spec.declare import declared, entries, form, key
from ci_compiler.spec.edges import in_build_order
from ci_compiler.spec.forms import (
    TOOLKIT,
    WORD,
    BranchName,
    BranchNames,
    Label,
    Minutes,
    Owner,
    PackageName,
    PackageVersion,
    PoolName,
    RepositoryName,
    Word,
)
from ci_compiler.spec.load import Document, Path_
from ci_compiler.spec.packages import Branch, Package, RecipeKind, Repository, Source
from ci_compiler.spec.pools import Cache, Pool, Prices, Publish, RunsOn
from ci_compiler.spec.recipe_keys import WorkAround
from ci_compiler.spec.shorthand.branch import ShortBranch
from ci_compiler.spec.shorthand.hardware import HardwareRows
from ci_compiler.spec.shorthand.keys import ShortMatrix, without_short_keys
from ci_compiler.spec.suites import Benchmark, ExpectedStageFailure
from ci_compiler.spec.triggers import Profiles, PullRequest, Schedule, Sync, Watch
from ci_compiler.spec.upstream import ActionName, ActionPin, Update
from ci_compiler.stages import BUILD, PUBLISH, Stage, StageKind, TestPolicy, stages, stages_that_test


@declared()
class Recall:
    """Why a published variant must not be installed. It ends when the entry is removed, or the version changes."""

    because: str = key(
        "What is wrong with it, in a few words.",
        title="one line of text, without braces",
        pattern=r"^[^\x00-\x1f\x7f{}]+$",
        maxLength=200,
        examples=["its convolutions return NaN on this GPU"],
    )
    branches: BranchNames = key("The branches whose build is recalled. Left out: every branch.", default=())
    versions: tuple[PackageVersion, ...] = key(
        "The versions of the package that are recalled. Left out: every version.",
        minItems=1,
        default=(),
        examples=[["2.8.0"]],
    )

    def concerns(self, branch: str, version: str) -> bool:
        """Whether the build of `version` on `branch` is recalled."""
        return (not self.branches or branch in self.branches) and (not self.versions or version in self.versions)


__all__ = [
    "Branch",
    "Cache",
    "Exclusion",
    "Matrix",
    "Package",
    "Pool",
    "Prices",
    "Publish",
    "PullRequest",
    "RecipeKind",
    "Repository",
    "RunsOn",
    "Schedule",
    "Source",
    "Spec",
    "Sync",
    "Update",
    "Watch",
    "WorkAround",
    "in_build_order",
]


Policy = Annotated[
    TestPolicy,
    form(
        "test-policy",
        description=(
            "`required`: a variant that no pool can test is an error. `where-routed`: it is left untested, and every "
            "output says so. `never`: the stage is left out."
        ),
    ),
]


@declared(title="a ci-compiler spec (a mapping of keys)")
class Spec:
    """One declaration of a fleet of hardware-specific packages: `.github/ci-matrix.yaml`. `ci-compile` turns it into
    workflows, recipes and documents.

    `document` knows the place of each value in the file. `hardware` is the bundled tables with the section's rows.
    """

    document: Document
    hardware: Hardware
    version: Literal[1] = key("The version of this format.", title="the version of this format, 1")
    bundled: Literal["torch"] | None = key(
        "The spec of this name that comes with ci-compiler, which gives every key that is left out here. `torch` is "
        "PyTorch, TorchVision and TorchAudio. Alone in the file, it is the whole spec.",
        title="the name of a bundled spec, torch",
        default=None,
    )
    owner: Owner = key("FloxHub organisation (or user) that the variants are published to.", examples=["my-org"])
    backend: Backend = key(
        f"What builds and publishes: {' or '.join(f'`{one}` ({one.summary})' for one in backends())}.",
        default=backends()[0],
    )
    branches: Mapping[BranchName, Branch] = key(
        "The git branches that carry recipes, each with the CUDA toolkit it builds with. The first is the repository's "
        "default branch, on which the spec is edited.",
        written=Mapping[BranchName, ShortBranch],
        minProperties=1,
        examples=[
            {
                "main": {
                    "cuda": "12.8",
                    "nixpkgs": "fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3",
                    "versions": {"pytorch": "2.8.0"},
                }
            }
        ],
    )
    packages: Mapping[PackageName, Package] = key(
        "The packages, each with a recipe for every cell of the matrix.",
        minProperties=1,
        examples=[{"pytorch": {"attribute": "torch"}, "torchvision": {"needs": ["pytorch"]}}],
    )
    work_arounds: Mapping[Word, WorkAround] = key(
        "The repository's own work-arounds, which branches list by name as they do the bundled ones.",
        default={},
        examples=[{"no-tests": {"why": "The tests need a GPU.", "cmake": ["-DBUILD_TESTS=OFF"]}}],
    )
    releases: Mapping[PackageVersion, Mapping[str, PackageVersion]] = key(
        "The releases of other packages that belong to a release of torch, by attribute, in addition to the bundled "
        "table. A value of two numbers stands for all releases of that series.",
        default={},
        examples=[{"2.15.0": {"torchvision": "0.30.0", "torchaudio": "2.11"}}],
    )
    axes: Mapping[str, AxisRow] = key(
        "Further axes of the matrix, and values of the built-in ones that serve others.",
        name="axes",
        written=AxisRows,
        convert=axis_rows,
        default={},
        published=False,
        examples=[{"torch": ["2.9", "2.10"], "python": {"serves": {"abi3": ["3.11", "3.12", "3.13"]}}}],
    )
    accelerators: Mapping[Word, AcceleratorRow] = key(
        "What the name of a family stands for in a matrix.",
        default={},
        examples=[{"rocm": {"toolkits": ["7.1", "7.2"], "targets": ["gfx942"]}}],
    )
    names: str = key(
        "What follows the package in the names of variants: axes in braces. An axis that a variant lacks is left out, "
        "with the dash before it. Left out: the Python, the declared axes, the accelerator, and the ISA or platform.",
        title="axes in braces with dashes between them ({python}-{accelerator})",
        pattern=r"^[A-Za-z0-9_.]*\{[a-z][a-z0-9_-]*\}([A-Za-z0-9_.]|-|\{[a-z][a-z0-9_-]*\})*$",
        examples=["{torch}-{accelerator}-{platform}"],
        default="",
    )
    settings: Mapping[Word, tuple[SettingRow, ...]] = key(
        "Values that differ between variants without naming them; a build finds each in its environment as "
        "`VARIANT_NAME`. Of the rows of a setting, the first that applies counts. `pool` names the pool that builds.",
        written=Mapping[Word, SettingRows],
        convert=lambda value: {name: setting_rows(rows) for name, rows in value.items()},
        default={},
        published=False,
        examples=[{"toolkit-version": [{"when": {"accelerator": "cuda 12"}, "value": "12.9.2"}]}],
    )
    matrix: Matrix | None = key(
        "The axes of every package that has none of its own.",
        default=None,
        written=ShortMatrix,
        convert=without_short_keys,
    )
    pools: tuple[Pool, ...] = key(
        "The pools of machines, by name. A job goes to the least scarce pool that has what its stage needs.",
        name="runners",
        written=Mapping[PoolName, Pool],
        convert=entries,
        minProperties=1,
        examples=[
            {
                "x86-builder": {
                    "runs-on": ["self-hosted", "linux", "x64", "nix-builder"],
                    "cpu": ["avx512bf16"],
                    "count": 4,
                }
            }
        ],
    )
    tests: Mapping[Stage, Policy] = key(
        "What happens to a test that no pool can run. A stage that is `never` run by default is switched on by one of "
        "the other values.",
        default={stage: stage.policy for stage in stages_that_test()},
    )
    expected_failures: tuple[ExpectedStageFailure, ...] = key(
        "Test stages of variants that fail for known reasons. Publishing still waits for them.", default=()
    )
    timeouts: Mapping[Stage, Minutes] = key(
        "Minutes after which GitHub ends a job of the stage.",
        default={stage: stage.timeout for stage in stages()},
    )
    stage_minutes: Mapping[Stage, Minutes] = key(
        "Duration of the stages after a build, for the forecast; the duration of a build is declared with its package.",
        default={stage: stage.minutes for stage in stages() if stage.kind is not StageKind.BUILD},
    )
    hardware_rows: HardwareRows = key(
        "Toolkits, GPUs and ISAs in addition to the bundled tables.",
        name="hardware",
        default=HardwareRows(),
        published=False,
    )
    benchmark: Benchmark = key(default=Benchmark())
    prices: Prices | None = key(default=None)
    publish: Publish = key(default=Publish())
    cache: Cache | None = key(default=None)
    recalls: Mapping[Word, Recall] = key(
        "Published variants that turned out wrong, by name. `select`, the finder page and the build matrix name "
        "others.",
        default={},
        examples=[{"pytorch-python313-cuda12_8-sm90-avx512": {"because": "its convolutions return NaN"}}],
    )
    attest: bool = key("Whether each build attests its manifest and its outputs (actions/attest).", default=False)
    pull_request: PullRequest = key(default=PullRequest())
    profiles: Profiles = key(default=Profiles(), published=False)
    schedule: Schedule | None = key(default=None)
    sync: Sync | None = key(default=None)
    update: Update | None = key(default=None)
    pins: Mapping[ActionName, ActionPin] = key(
        "Commits of actions in place of the compiler's own, by action.",
        default={},
        examples=[{"actions/checkout": {"tag": "v7.0.1", "commit": "3d3c42e5aac5ba805825da76410c181273ba90b1"}}],
    )
    fleet_watch: bool = key(
        "Whether `fleet-watch.yml` checks on a schedule that a runner serves each label set. Without its token, it "
        "skips the check with a notice.",
        default=True,
    )
    watch: Watch | None = key(default=None)
    pages: bool = key(
        "Whether `pages.yml` publishes the finder page. Where GitHub Pages is off, it skips that with a notice.",
        default=True,
    )
    results_issue: bool = key(
        "Whether `pages.yml` keeps an issue about the variants whose newest result is a failure. It opens the issue, "
        "updates it each day, and closes it when each variant passes.",
        default=False,
    )
    repository: RepositoryName = key(
        "The repository on GitHub whose workflows these are; in any other one they do nothing. Left out: they do "
        "nothing in a fork. Needed where the repository is itself a fork of another one.",
        examples=["my-org/build-pytorch"],
        default="",
    )
    hosted: Label = key(
        "GitHub-hosted machine for the checks that run no code of a variant. Linux only.",
        title="the label of a Linux machine (ubuntu-24.04)",
        pattern=f"(?!.*([Ww]indows|[Mm]ac[Oo][Ss])){WORD}",
        default="ubuntu-24.04",
    )
    toolkit: str = key(
        "What hosted jobs install to have `ci-compile`: a release, a commit of a git repository, a wheel by its URL "
        "and hash, a file of requirements with hashes, or a path in the repository. The version that compiled, if not "
        "given.",
        title="NAME==VERSION, git+https://HOST/PATH@COMMIT, the URL of a wheel with #sha256=HEX, .github/FILE.txt with "
        "requirements and their hashes, or a path (. or ./PATH)",
        pattern=TOOLKIT,
        examples=[
            "ci-compiler==0.1.0",
            "git+https://github.com/flox-cuda/ci-compiler@0123456789abcdef0123456789abcdef01234567",
            ".github/ci-compiler.txt",
        ],
        default=f"ci-compiler=={__version__}",
        published=False,
    )

    @property
    def matrices(self) -> Iterator[tuple[Path_, Matrix, tuple[Package, ...]]]:
        """Each matrix: its path in the file, and the packages that take it."""
        packages = [one for one in self.packages.values() if not one.system]
        if self.matrix is not None:
            yield ("matrix",), self.matrix, tuple(one for one in packages if one.matrix is None)
        for package in packages:
            if package.matrix is not None:
                yield ("packages", package.name, "matrix"), package.matrix, (package,)

    @property
    def has_edges(self) -> bool:
        """Whether what some package needs or gathers is more than the variants of the same cell."""
        return any(
            package.gathers or not all(edge.is_plain for edge in package.edges) for package in self.packages.values()
        )

    def lists(self, package: Package) -> bool:
        """Whether the jobs of variants of `package` may be called by their names: of those that fit no axis, or whose
        values are more or fewer than a Python, an accelerator and an ISA.
        """
        taken = [matrix for _, matrix, own in self.matrices if package.name in {one.name for one in own}]
        rows = [row for matrix in taken for _, row in matrix.combinations]
        usual = all({*row} - {"branch"} == {"python", "accelerator", "isa"} and _is_usual(row) for row in rows)
        listed = package.system or package.variants
        return bool(listed or package.ignores or self.has_edges or not usual)

    def axes_of(self, package: str) -> tuple[Path_, Matrix]:
        """The matrix that `package` takes, with its path in the file. Raises KeyError if it takes none."""
        for path, matrix, packages in self.matrices:
            if any(other.name == package for other in packages):
                return path, matrix
        raise KeyError(package)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that outputs mention: all but those that a spec must switch on, and this one does not."""
        return tuple(stage for stage in stages() if not stage.is_optional or self.tests[stage] is not TestPolicy.NEVER)

    @property
    def publishing_secrets(self) -> tuple[str, ...]:
        """The names of the publishing secrets, which only publishing gets."""
        return (self.backend.secret,) if self.backend.has_recipes else self._secrets(lambda command: command.secrets)

    @property
    def required_secrets(self) -> tuple[str, ...]:
        """Those of them without which publishing fails."""
        return (
            (self.backend.secret,)
            if self.backend.has_recipes
            else self._secrets(lambda command: command.required_secrets)
        )

    def _secrets(self, of: Callable[[Command], tuple[str, ...]]) -> tuple[str, ...]:
        names = (name for package in self.packages.values() if package.command for name in of(package.command))
        return tuple(dict.fromkeys(names))

    @property
    def building(self) -> frozenset[Stage]:
        """The stages that may build, and so need a builder's disk and memory."""
        publishing = self.backend.builds_to_publish and self.cache is None
        return frozenset({BUILD, PUBLISH} if publishing else {BUILD})

    @property
    def pythons(self) -> tuple[str, ...]:
        """Every Python version that the spec names, oldest first."""
        named = {python for _, matrix, _ in self.matrices for python in matrix.of("python")}
        return tuple(sorted(named, key=python_order))

    @property
    def toolkits(self) -> tuple[str, ...]:
        """Every toolkit that a branch builds with, in the spec's order."""
        return tuple(dict.fromkeys(name for branch in self.branches.values() for name in branch.toolkits))

    @property
    def every_toolkit(self) -> tuple[str, ...]:
        """Every toolkit of any family that a branch, or a matrix, builds with."""
        named = (one.toolkit for _, matrix, _ in self.matrices for _, one in matrix.accelerators)
        listed = (toolkit for rows in self.accelerator_tables() for row in rows.values() for toolkit in row.toolkits)
        return tuple(filter(None, dict.fromkeys((*self.toolkits, *named, *listed))))

    @property
    def gpus(self) -> tuple[str, ...]:
        """Every value of the GPU axis that the spec names, in its order."""
        return tuple(dict.fromkeys(name for _, matrix, _ in self.matrices for name in self._targets(matrix)))

    def _targets(self, matrix: Matrix) -> Iterator[str]:
        for _, accelerator in matrix.accelerators:
            rows = [rows[accelerator.family] for rows in self.accelerator_tables() if accelerator.family in rows]
            targets = next((row.targets for row in rows if row.targets), ())
            yield from [accelerator.label] if accelerator.target else targets or [accelerator.label]

    def accelerator_tables(self, branch: str = "") -> list[Mapping[str, AcceleratorRow]]:
        """What families stand for: on `branch` (on any, if not given), and everywhere else."""
        asked = [self.branches[branch]] if branch else self.branches.values()
        own = [other.accelerators for other in asked]
        return [*own, self.accelerators]

    def place(self, *path: str | int, key: bool = False) -> Place:
        """The place of the value (or the key) at `path` in the spec's file."""
        full: Path_ = path
        return self.document.place(full, key=key)

    def is_guess(self, *path: str | int) -> bool:
        """Whether the value at `path`, or the entry of its section, is on a line that is marked as guessed."""
        places = (self.place(*path), self.place(*path[:2], key=True))
        return any(place.file == self.document.file and place.line in self.document.guessed for place in places)

    def finding(self, path: Path_, code: Code, message: str, *, key: bool = False, tolerated: bool = False) -> Finding:
        """A finding about the value (or the key) at `path`."""
        return Finding(place=self.place(*path, key=key), code=code, message=message, tolerated=tolerated)

    def unless_known(
        self, path: Path_, code: Code, name: str, known: Collection[str], *, key: bool = False
    ) -> Iterator[Finding]:
        """A finding about the value (or the key) at `path` if `name` is not among `known`; `code` is `unknown-KIND`."""
        if name not in known:
            yield self.finding(path, code, unknown(code, name, known), key=key)


def _is_usual(row: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether the accelerators of a row are targets of CUDA, or none."""
    parsed = map(Accelerator.parse, row["accelerator"])
    return all(one.family == NO_ACCELERATOR.family or (one.family == SHORT_FAMILY and one.target) for one in parsed)
