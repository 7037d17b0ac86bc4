"""What the benchmarks measure and print."""

from __future__ import annotations

from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import parse_spec
from tests.bench.fleets import fleet
from tests.bench.measure import PYTHON, Figure, process


def test_a_synthetic_fleet_compiles_and_has_about_the_size_asked_for() -> None:
    decided = plan(parse_spec(fleet(1_300), shown="ci-matrix.yaml"))
    assert 1_200 < sum(len(shard.variants) for shard in decided.shards) < 1_400


def test_a_figure_shows_the_median_ratio_to_bare_python() -> None:
    figure = Figure(seconds=(0.3, 0.2, 0.4), processor=(0.2, 0.3, 0.8), bare=(0.1, 0.1, 0.2))
    assert str(figure) == "0.300 s (0.200 to 0.400, n=3); processor 0.300 s, 3.0 × bare Python"
    assert str(Figure(seconds=(1.0,))) == "1.000 s (1.000 to 1.000, n=1)"


def test_bare_python_runs_before_each_process() -> None:
    figure = process([PYTHON, "-c", "for _ in range(10**7): pass"], runs=2, warm=False)
    assert len(figure.processor) == len(figure.bare) == 2
    assert figure.ratio > 2
