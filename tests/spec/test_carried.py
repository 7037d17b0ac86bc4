"""Files that are edited on the default branch and carried to the others."""

from __future__ import annotations

from dataclasses import replace

from ci_compiler.spec.carried import SPEC, carried_paths, default_branch, template_paths
from tests.specs import MAIN, small, spec_of

BRANCH = MAIN | {"versions": MAIN["versions"] | {"torchaudio": "2.8.0"}}
TEMPLATES = spec_of(
    small(
        branches={"first": BRANCH, "second": BRANCH},
        packages={
            "pytorch": {"attribute": "torch", "overlays": ["nix/a.nix", "nix/b.nix"]},
            "torchvision": {"recipes": "template", "template": "nix/vision.nix", "overlays": ["nix/a.nix"]},
            "torchaudio": {"recipes": {"*-cpu-*": "template", "*": "own"}, "template": "nix/vision.nix"},
            "vllm": {"recipes": "own"},
        },
    )
)


def test_the_first_branch_is_the_default() -> None:
    assert default_branch(TEMPLATES) == "first"


def test_templates_are_listed_once() -> None:
    assert template_paths(TEMPLATES) == ("nix/vision.nix",)


def test_the_spec_is_carried_from_its_place_with_templates_and_overlays() -> None:
    rest = ("nix/vision.nix", "nix/a.nix", "nix/b.nix")
    assert carried_paths(TEMPLATES, "ci-matrix.yaml") == ("ci-matrix.yaml", *rest)
    assert carried_paths(TEMPLATES) == rest  # it was read from elsewhere
    assert SPEC == ".github/ci-matrix.yaml"


def test_the_bundled_spec_is_carried_wherever_it_was_read() -> None:
    assert carried_paths(replace(spec_of(small()), bundled="torch")) == (SPEC,)
