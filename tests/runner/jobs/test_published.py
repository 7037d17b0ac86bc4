"""Whether a variant is already published in a cache; a cache that does not answer is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.backends.nix_store import NixStore
from ci_compiler.errors import StageError
from ci_compiler.runner.jobs.publish import is_published
from tests.checkers import require
from tests.specs import small, spec_of

NAME = "pytorch-python313-cpu-avx2"


@pytest.fixture
def _nothing_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe with one output, which no cache has."""
    monkeypatch.setattr(NixStore, "instantiate", lambda *_: "/nix/store/x.drv")
    monkeypatch.setattr(NixStore, "outputs", lambda *_: ("/nix/store/00000000000000000000000000000000-x",))


@pytest.mark.usefixtures("_nothing_is_there")
def test_a_cache_that_does_not_answer_is_an_error_and_one_without_the_output_says_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("nix-store")
    monkeypatch.setenv("NIX_CONFIG", "download-attempts = 1")  # more of them take seconds

    def published(url: str) -> bool:
        cache = {"url": url, "public-key": f"n:{'A' * 43}="}
        return is_published(spec_of(small(backend="nix", cache=cache)), tmp_path, "main", NAME)

    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/nix-cache-info").write_text("StoreDir: /nix/store\n", "utf-8")
    assert published(f"file://{tmp_path}/cache") is False
    with pytest.raises(StageError, match=r"it does not answer here.*\[cache-unreachable\]"):
        published("https://127.0.0.1:1")
