"""The code of every finding, with its severity.

`findings.toml` documents each code; `ci_compiler.register` reads it, and a test compares the two.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Severity(StrEnum):
    """Whether a finding stops the command (error) or is only printed (warning)."""

    ERROR = "error"
    WARNING = "warning"


class Code(StrEnum):
    """What a finding reports: the word after its place, and the name of its page in the reference."""

    severity: Severity

    def __new__(cls, text: str, severity: Severity = Severity.ERROR) -> Self:
        """The code `text`."""
        self = str.__new__(cls, text)
        self._value_ = text
        self.severity = severity
        return self

    ALLOW_BROKEN_DIFFERS = "allow-broken-differs", Severity.WARNING
    ANOTHER_TORCH = "another-torch"
    BIG_PARALLEL_MISSING = "big-parallel-missing"
    BRANCH_AHEAD = "branch-ahead"
    BRANCH_CUDA = "branch-cuda"
    BROKEN_MANIFEST = "broken-manifest"
    BUILD_FAILED = "build-failed"
    CACHE_MISSING = "cache-missing"
    CACHE_UNREACHABLE = "cache-unreachable"
    CANNOT_START = "cannot-start"
    CANNOT_WRITE = "cannot-write"
    CHECK_FAILED = "check-failed"
    CLOSURE_MISSING = "closure-missing"
    COMMAND_MISSING = "command-missing"
    COMMAND_UNUSED = "command-unused"
    COMMIT_NOT_ON_BRANCH = "commit-not-on-branch"
    CUDA_IN_CPU_RECIPE = "cuda-in-cpu-recipe"
    CUDA_IN_NAME = "cuda-in-name"
    CUDA_OFF = "cuda-off"
    DIFFERS_FROM_SPEC = "differs-from-spec"
    DOTTED_NAME = "dotted-name"
    DUPLICATE_NAME = "duplicate-name"
    DUPLICATE_RECIPE = "duplicate-recipe", Severity.WARNING
    EMPTY_MATRIX = "empty-matrix"
    ENGINE_FAILS = "engine-fails"
    EXCLUDED = "excluded"
    FLAGS_EXCEED_ISA = "flags-exceed-isa"
    FILE_DIFFERS = "file-differs"
    FOREIGN_REMOTE = "foreign-remote"
    FOREIGN_TORCH = "foreign-torch"
    FOREIGN_TORCH_DIFFERS = "foreign-torch-differs", Severity.WARNING
    GIT = "git"
    GIT_MISSING = "git-missing"
    GITHUB_CONFLICT = "github-conflict"
    GITHUB_FORBIDDEN = "github-forbidden"
    GITHUB_GARBLED = "github-garbled"
    GITHUB_NOT_FOUND = "github-not-found"
    GITHUB_RATE_LIMIT = "github-rate-limit"
    GITHUB_REFUSED = "github-refused"
    GITHUB_SERVER = "github-server"
    GITHUB_TOKEN = "github-token"  # noqa: S105  (a code)
    GITHUB_UNREACHABLE = "github-unreachable"
    GPU_DROPPED_BY_CUDA = "gpu-dropped-by-cuda"
    GPU_HOST = "gpu-host"
    GPU_NEEDS_NEWER_CUDA = "gpu-needs-newer-cuda"
    GPU_TARGET_NOTATION = "gpu-target-notation"
    GPU_TARGETS = "gpu-targets"
    HISTORY_EMPTY = "history-empty"
    HISTORY_MISSING = "history-missing"
    IMPOSSIBLE_MACHINE = "impossible-machine"
    IN_THE_WAY = "in-the-way"
    ISA_SYSTEM = "isa-system"
    JOBS_DIFFER = "jobs-differ", Severity.WARNING
    LABEL_SET = "label-set", Severity.WARNING
    LONG_EXCLUSIONS = "long-exclusions", Severity.WARNING
    MISSING_BRANCH = "missing-branch"
    MISSING_GPU = "missing-gpu"
    MISSING_HASH = "missing-hash"
    MISSING_KEY = "missing-key"
    MISSING_MATRIX = "missing-matrix"
    MISSING_PYTHON = "missing-python"
    MISSING_RECIPE = "missing-recipe"
    MISSING_REV = "missing-rev"
    MISSING_SYSTEM = "missing-system"
    MISSING_VERSION = "missing-version"
    NAME_ATTRIBUTE_PATH = "name-attribute-path"
    NEEDS_CIRCLE = "needs-circle"
    NEEDS_MISSING = "needs-missing"
    NEEDS_MISSING_VARIANT = "needs-missing-variant"
    NEEDS_OTHER = "needs-other"
    NEEDS_TORCH = "needs-torch", Severity.WARNING
    NIX = "nix"
    NIX_FAILED = "nix-failed"
    NIX_MISSING = "nix-missing"
    NO_CACHE = "no-cache", Severity.WARNING
    NO_CONTAINERS = "no-containers", Severity.WARNING
    NO_ENGINE = "no-engine"
    NO_EVENT = "no-event"
    NO_LABEL_SET = "no-label-set"
    NO_PIN = "no-pin", Severity.WARNING
    NO_POOL = "no-pool"
    NO_PYTHON = "no-python"
    NO_PYTHON_PACKAGE = "no-python-package"
    NO_REPOSITORY = "no-repository"
    NO_RUN = "no-run"
    NO_RUNNER = "no-runner"
    NO_SCALE_SET = "no-scale-set"
    NO_TOKEN = "no-token"  # noqa: S105  (a code)
    NO_VERSION = "no-version", Severity.WARNING
    NO_WORKFLOW = "no-workflow"
    NOT_A_FAST_FORWARD = "not-a-fast-forward"
    NOTHING_TO_ADOPT = "nothing-to-adopt"
    ONE_OFF = "one-off"
    OTHER_VERSION = "other-version"
    OVERLAY_LEFT_OUT = "overlay-left-out", Severity.WARNING
    OVERLAY_MISSING = "overlay-missing"
    PACKAGE_ATTRIBUTE = "package-attribute"
    PNAME_DIFFERS = "pname-differs"
    POOL_STEALS = "pool-steals"
    PROGRAM_MISSING = "program-missing"
    PUBLISH_FAILED = "publish-failed"
    PUBLISH_UNSIGNED = "publish-unsigned"
    PUSH_FAILED = "push-failed"
    PYTORCH_ALIAS = "pytorch-alias"
    RECIPE_CHANGED = "recipe-changed"
    RECIPE_EVALUATION = "recipe-evaluation"
    RECIPE_MISSING = "recipe-missing"
    RECIPE_SYNTAX = "recipe-syntax"
    RECIPE_TIMEOUT = "recipe-timeout"
    RECIPES_MISSING = "recipes-missing"
    RESULT_MISSING = "result-missing"
    ROOT_MISSING = "root-missing"
    RUNNER_COUNT = "runner-count"
    RUNNER_OUTDATED = "runner-outdated"
    RUNS_ALREADY = "runs-already"
    SAME_NAME_SAME_VERSION = "same-name-same-version"
    SCALE_SET = "scale-set"
    SECRET_MISSING = "secret-missing"  # noqa: S105  (a code)
    SETUP_FAILED = "setup-failed"
    SHALLOW_CLONE = "shallow-clone"
    SOURCE_DIFFERS = "source-differs", Severity.WARNING
    SOURCE_LEFT_OUT = "source-left-out", Severity.WARNING
    SPEC_ALIAS = "spec-alias"
    SPEC_CHARACTER = "spec-character"
    SPEC_DUPLICATE_KEY = "spec-duplicate-key"
    SPEC_EMPTY = "spec-empty"
    SPEC_KEY = "spec-key"
    SPEC_MERGE = "spec-merge"
    SPEC_MISSING = "spec-missing"
    SPEC_NOT_UTF8 = "spec-not-utf8"
    SPEC_SYNTAX = "spec-syntax"
    SPEC_TAG = "spec-tag"
    SPEC_TOO_LARGE = "spec-too-large"
    SPEC_UNREADABLE = "spec-unreadable"
    STAGE_MISSING = "stage-missing"
    SYSTEM = "system"
    TEMPLATE_MISSING = "template-missing"
    TEST_FAILED = "test-failed"
    TEST_NEVER_RUNS = "test-never-runs"
    TEXT_NAMES_ANOTHER_GPU = "text-names-another-gpu"
    TOO_MANY_JOBS = "too-many-jobs"
    TORCH_DIFFERS = "torch-differs"
    TREE_CHANGED = "tree-changed"
    UNKNOWN_BASE = "unknown-base"
    UNKNOWN_BRANCH = "unknown-branch"
    UNKNOWN_CPU = "unknown-cpu"
    UNKNOWN_CUDA = "unknown-cuda"
    UNKNOWN_ENGINE = "unknown-engine"
    UNKNOWN_EVENT = "unknown-event"
    UNKNOWN_FLAG = "unknown-flag"
    UNKNOWN_GPU = "unknown-gpu"
    UNKNOWN_GROUP = "unknown-group"
    UNKNOWN_ISA = "unknown-isa"
    UNKNOWN_KEY = "unknown-key"
    UNKNOWN_PACKAGE = "unknown-package"
    UNKNOWN_PLACEHOLDER = "unknown-placeholder"
    UNKNOWN_POOL = "unknown-pool"
    UNKNOWN_PRESET = "unknown-preset"
    UNKNOWN_PYTHON = "unknown-python"
    UNKNOWN_RECIPE = "unknown-recipe"
    UNKNOWN_REVISION = "unknown-revision"
    UNKNOWN_SHARD = "unknown-shard"
    UNKNOWN_SYSTEM = "unknown-system"
    UNKNOWN_TOOLKIT = "unknown-toolkit"
    UNKNOWN_VARIANT = "unknown-variant"
    UNKNOWN_WORK_AROUND = "unknown-work-around"
    UNPROVED_ISA = "unproved-isa"
    UNSAFE_FILE = "unsafe-file"
    UNUSED_ALSO = "unused-also"
    UNUSED_BRANCH = "unused-branch"
    UNUSED_EXCLUSION = "unused-exclusion"
    UNUSED_GPU = "unused-gpu"
    UNUSED_POOL = "unused-pool", Severity.WARNING
    VARIANT_NOT_BUILT = "variant-not-built"
    VERSION_DIFFERS = "version-differs", Severity.WARNING
    WHICH_BRANCH = "which-branch"
    WORK_AROUND_DIFFERS = "work-around-differs", Severity.WARNING
    WORKFLOW_TOO_LARGE = "workflow-too-large"
    WRONG_ADDRESS = "wrong-address"
    WRONG_COUNT = "wrong-count"
    WRONG_CPU_FLAGS = "wrong-cpu-flags"
    WRONG_DRIVER = "wrong-driver"
    WRONG_GPU = "wrong-gpu"
    WRONG_HARDWARE = "wrong-hardware"
    WRONG_NAME = "wrong-name"
    WRONG_OPTION = "wrong-option"
    WRONG_PATTERN = "wrong-pattern"
    WRONG_PIN = "wrong-pin"
    WRONG_PLATFORMS = "wrong-platforms"
    WRONG_REF = "wrong-ref"
    WRONG_REPOSITORY = "wrong-repository"
    WRONG_TEST = "wrong-test"
    WRONG_TOKEN = "wrong-token"  # noqa: S105  (a code)
    WRONG_TYPE = "wrong-type"
    WRONG_VALUE = "wrong-value"
