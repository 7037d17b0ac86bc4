"""Words that pause jobs: which there are for a job, and which a variable has in force."""

from __future__ import annotations

import pytest

from ci_compiler.plan.pause import pause_word, words_in_force, words_of_cells, words_of_jobs
from ci_compiler.plan.pipeline import plan
from tests.specs import small, spec_of


@pytest.mark.parametrize(
    ("branch", "pool", "word"),
    [
        (None, None, "all"),
        ("main", None, "branch:main"),
        (None, "h100", "pool:h100"),
        ("main", "h100", "pool:h100@main"),
    ],
)
def test_the_word_for_jobs_of_a_branch_on_a_pool(branch: str | None, pool: str | None, word: str) -> None:
    assert pause_word(branch, pool) == word


def test_a_job_asks_for_four_words_each_once() -> None:
    assert words_of_jobs([("main", "a"), ("main", "b")]) == [
        *("all", "branch:main", "pool:a", "pool:a@main"),
        *("pool:b", "pool:b@main"),
    ]
    assert words_of_jobs([]) == []


def test_words_of_publishing_count_where_a_run_publishes() -> None:
    suites = {"s": {"command": "x", "minutes": 5}}
    pool = {"runs-on": ["self-hosted", "linux", "x64"], "cpu": ["avx512"]}
    runners = {
        "builder": pool | {"runs-on": [*pool["runs-on"], "b"], "stages": ["build"]},
        "tester": pool | {"runs-on": [*pool["runs-on"], "t"], "stages": ["cpu-test"]},
        "publisher": pool | {"runs-on": [*pool["runs-on"], "p"], "stages": ["publish"]},
    }
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}}}
    packages = {"pytorch": {"attribute": "torch", "suites": suites}, "torchvision": {}}
    decided = plan(spec_of(small(runners=runners, matrix=matrix, packages=packages)))
    cells = list(zip(decided.judged.cells, decided.routes, strict=True))
    tests = ["all", "branch:main", "pool:builder", "pool:builder@main", "pool:tester", "pool:tester@main"]
    assert words_of_cells(cells, publish=False) == tests
    assert words_of_cells(cells, publish=True) == [*tests, "pool:publisher", "pool:publisher@main"]


def test_words_in_force_are_compared_in_any_case() -> None:
    spec = spec_of(small())
    value = "ALL  pool:h100@main branch:Main pool:nothing all ALL"
    assert list(words_in_force(spec, value)) == [
        ("ALL", True),
        ("pool:h100@main", True),
        ("branch:Main", True),
        ("pool:nothing", False),
        ("all", True),
    ]
    assert list(words_in_force(spec, "")) == []
