"""The forms of what a build reports, and how its programs are installed."""

from __future__ import annotations

import pytest

from ci_compiler.backends.forms import BASH, CACHE_KEY, FLOX, FORMS, path_name
from tests.backends.programs import path


@pytest.mark.parametrize(
    ("form", "text", "fits"),
    [
        *((form, path("torch-2.8.0+cu128_x?=.drv"), True) for form in ("path", "derivation")),
        ("path", f"/home/me/store/{'z' * 32}-x", True),
        *(
            ("path", f"/nix/store/{'a' * 32}{name}", False)
            for name in ("", "-", "-a b", "-a/b", "a-b", f"-{212 * 'a'}")
        ),
        *(("path", f"{folder}{'a' * 32}-x", False) for folder in ("", "nix/store/", "/nix store/")),
        *(("path", f"/nix/store/{letter * 32}-x", False) for letter in "eotuA"),
        ("content", f"sha256:{'0' * 52}", True),
        *(("content", text, False) for text in (f"sha256:{'0' * 51}", f"sha256:{'e' * 52}", "0" * 52)),
    ],
)
def test_a_build_with_nix_reports_store_paths_and_hashes(form: str, text: str, fits: bool) -> None:
    assert bool(getattr(FORMS, form).fullmatch(text)) == fits


def test_programs_and_the_key_have_their_names() -> None:
    assert BASH == ("bash", "install bash; on Windows, install Git, which has it")
    assert FLOX == ("flox", "install it from https://flox.dev/docs/install-flox, for the runner's user")
    assert CACHE_KEY == "NIX_CACHE_SIGNING_KEY"
    assert path_name(path("torch-2.8.0")) == "torch-2.8.0"
