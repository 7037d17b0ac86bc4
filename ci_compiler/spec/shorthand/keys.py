"""The words of the short form: keys of a branch and placeholders that are named after CUDA."""

from typing import Annotated

from ci_compiler.spec.declare import form

TOOLKITS = "cuda"
"""The key of a branch with its toolkits, and the placeholder of the toolkit."""

TOOLKIT_TAG = "cuda-tag"
"""The placeholder of the toolkit in names."""

TOOLKIT_PACKAGES = "cuda-packages"
"""The placeholder of the toolkit's package set in nixpkgs."""

ToolkitVersion = Annotated[
    str, form("cuda-version", title='a CUDA toolkit\'s version in quotes ("12.8")', pattern=r"^[0-9]{1,2}\.[0-9]{1,2}$")
]
