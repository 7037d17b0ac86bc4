"""Files that the compiler writes: whose they are, whether they drifted, and how they are written."""

COMPILED_BY = "COMPILED_BY"
"""The environment variable of jobs on self-hosted machines with the version of ci-compile that compiled them."""
