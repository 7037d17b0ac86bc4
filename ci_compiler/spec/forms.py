"""Forms that several keys of the spec share, each a definition of the JSON Schema unless it has no name.

A `title` completes the sentence "… is not …" in messages about a wrong value.
"""

from typing import Annotated, Any

from ci_compiler.spec.declare import form

LINE = r"^[^\x00-\x1f\x7f]+$"
COMMENT_LINE = r"^[^\x00-\x1f\x7f\u2028\u2029]+$"
"""Patterns of a text on one line; the latter may become a comment in YAML, where more characters end a line."""

WORD = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
REVISION = "^[0-9a-f]{40}$"
"""The patterns of a name, and of a commit."""

Owner = Annotated[
    str, form("owner", title="an owner (letters, digits, _ and -)", pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")
]

BranchName = Annotated[
    str,
    form(
        "branch-name",
        title="a branch name that git and GitHub accept (letters, digits, _ - . and single slashes)",
        pattern=r"^(?!(HEAD|[0-9a-f]{40})$|refs/)(?!.*(\.\.|\.lock(/|$)|/\.|\.$|\./))[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9._-]+)*$",
        maxLength=100,
    ),
]

PackageName = Annotated[
    str,
    form(
        "package-name",
        title="a package name (a letter, then letters, digits, _ and -, up to 40, and no - at the end)",
        pattern="^[A-Za-z]([A-Za-z0-9_-]{0,38}[A-Za-z0-9_])?$",
    ),
]

PoolName = Annotated[
    str,
    form(
        "pool-name",
        title="a pool name (lower-case letters, digits and -, up to 45)",
        pattern="^[a-z0-9]([a-z0-9-]{0,43}[a-z0-9])?$",
    ),
]

Label = Annotated[
    str,
    form("label", title="a runner label (letters, digits and . _ -)", pattern=WORD),
]

CacheUrl = Annotated[
    str,
    form(
        "cache-url",
        title="a store URL (s3://, https://, ssh-ng:// or file://)",
        pattern="^(?!https://[^/]*@)(s3|https|ssh-ng|file)://[A-Za-z0-9._~:/?=&%+@-]+$",
    ),
]

PublicKey = Annotated[
    str,
    form("public-key", title="a Nix public key (NAME:BASE64)", pattern="^[A-Za-z0-9._-]+:[A-Za-z0-9+/=]{44}$"),
]

Word = Annotated[str, form("word", title="a name (letters, digits, . _ and -)", pattern=WORD)]

PackageVersion = Annotated[
    str,
    form(
        "version",
        title="a version (digits, letters and . + -, in quotes where it looks like a number)",
        pattern="^[0-9][0-9A-Za-z.+-]{0,39}$",
    ),
]

Hash = Annotated[str, form("hash", title="a hash in SRI form (sha256-…)", pattern="^sha256-[A-Za-z0-9+/]{43}=$")]

RepositoryName = Annotated[
    str,
    form(
        "repository-name",
        title="a GitHub repository (OWNER/NAME)",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.)[A-Za-z0-9._-]{1,100}$",
    ),
]

Minutes = Annotated[
    int,
    form(
        "minutes",
        title="a number of minutes, up to 7200 (GitHub ends a self-hosted job after 5 days)",
        minimum=1,
        maximum=7200,
    ),
]

Amount = Annotated[
    str,
    form(
        "amount",
        title='an amount of money in quotes ("2.40")',
        pattern=r"^(0|[1-9][0-9]{0,8})(\.[0-9]{1,8})?$",
        examples=["2.40"],
    ),
]

IsaNames = Annotated[tuple[Word, ...], form("isa-names", title="a list of ISA names", examples=[["avx2", "avx512"]])]

BranchNames = Annotated[
    tuple[str, ...],
    form(
        "branch-names",
        title="a list of branches",
        description="Branches by name. Left out: every branch.",
        minItems=1,
        examples=[["main", "cuda-12_9"]],
    ),
]

Commit = Annotated[str, form(title="a commit (40 hexadecimal digits)", pattern=REVISION)]

PYTHON_VERSION = r"3\.(9|1[0-5])"
"""The pattern of a Python version."""

Python = Annotated[
    str, form(title='a Python version from 3.9 to 3.15 in quotes ("3.13")', pattern=f"^{PYTHON_VERSION}$")
]
"""A released Python version: PEP 596, 619, 664, 693, 719, 745, 790."""

Gigabytes = Annotated[int, form(title="a number of gigabytes", minimum=1)]

Day = Annotated[str, form(title="a date (YYYY-MM-DD)", pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]

Reason = Annotated[
    str, form(title="a reason of one line (3 to 200 characters)", minLength=3, maxLength=200, pattern=COMMENT_LINE)
]

VariantPattern = Annotated[
    str,
    form(
        "variant-pattern",
        title="a pattern of variant names (as pytorch-*-sm{90,100}-*)",
        pattern=r"^[A-Za-z0-9_*?{},!\[\]-]+$",
        maxLength=200,
    ),
]

FilePath = Annotated[
    str,
    form(
        "file-path",
        title="a path from the repository's root (letters, digits and . _ + - between slashes, no ..)",
        pattern=r"^(?!.*(^|/)\.\.?(/|$))[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*$",
        maxLength=200,
    ),
]

_TEXT = {"type": "string", "maxLength": 2000, "pattern": r"^[^\x00-\x1f\x7f]*$"}
_VARIABLE = {
    "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,99}$",
    "title": "the name of a variable (letters, digits and _)",
}
_ATTRIBUTE = {
    "pattern": "^[A-Za-z_][A-Za-z0-9_'-]{0,99}$",
    "title": "a Nix name (letters, digits, _ and -)",
}
_SCALAR = {"type": ["string", "integer"], "title": "text or a whole number"}
_FLAGS = {"type": "array", "items": _TEXT}
_PACKAGES = {
    "type": "array",
    "items": {
        "type": "string",
        "title": "a package of nixpkgs (attributes with dots between them)",
        "pattern": r"^[A-Za-z_@][A-Za-z0-9_@'-]*(\.[A-Za-z_@][A-Za-z0-9_@'-]*)*$",
    },
}
_OWN_KEY = (
    "cmakeFlags", "meta", "ninjaFlags", "passthru", "patches", "pname", "postPatch", "preBuild", "preConfigure", "src",
    "version",
)  # fmt: skip


def _table(item: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """The schema of a table of items, with sub-tables of the same form for GPU and for CPU builds."""
    rows = {"type": "object", "propertyNames": names, "additionalProperties": item}
    return {**rows, "properties": {"gpu": rows, "cpu": rows}}


RecipeArguments = Annotated[Any, form("recipe-arguments", **_table({}, _ATTRIBUTE))]

RecipeEnvironment = Annotated[Any, form("recipe-environment", **_table(_SCALAR, _VARIABLE))]

RecipeFlags = Annotated[
    Any,
    form(
        "recipe-flags",
        title="a list of flags, or {gpu: FLAGS, cpu: FLAGS}",
        anyOf=[
            _FLAGS,
            {"type": "object", "additionalProperties": False, "properties": {"gpu": _FLAGS, "cpu": _FLAGS}},
        ],
    ),
]

RecipeInputs = Annotated[
    Any,
    form(
        "recipe-inputs",
        **_table(
            _PACKAGES,
            {
                "pattern": "^(gpu|cpu|[A-Za-z]*([bB]uild|[cC]heck)Inputs|dependencies|build-system)$",
                "title": "an attribute that lists inputs (buildInputs, nativeBuildInputs, dependencies …)",
            },
        ),
    ),
]

RecipeAttributes = Annotated[
    Any,
    form(
        "recipe-attributes",
        **_table(
            {},
            {
                **_ATTRIBUTE,
                "not": {"enum": list(_OWN_KEY)},
                "title": f"a further attribute of the derivation (other keys make {', '.join(_OWN_KEY)})",
            },
        ),
    ),
]

TOOLKIT = (
    r"^(\.(/(?!\.\.?(/|$))[A-Za-z0-9._+-]+)*|\.github/[A-Za-z0-9][A-Za-z0-9._-]*\.txt"
    r"|[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.+!]+"
    r"|git\+https://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~-]+)+@[0-9a-f]{40}"
    r"|https://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~%+-]+)+\.whl#sha256=[0-9a-f]{64})$"
)
"""The pattern of what pip installs: each form names exact content, except for a release of an index."""

LabelSet = Annotated[tuple[Label, ...], form(minItems=1, maxItems=20)]

SCALE_SET = "^(?!(null|true|false|yes|no|on|off|y|n)$)[a-z]([a-z0-9.-]{0,43}[a-z0-9])?$"
"""The pattern of a scale set's name: an object of Kubernetes, and text in YAML, since the chart does not quote it."""

ScaleSetName = Annotated[str, form(pattern=f"^(?!(ubuntu|windows|macos)-(latest|[0-9])){SCALE_SET}")]
