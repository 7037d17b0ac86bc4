"""The page in a browser: choosing, pasting, filtering, opening, copying; by keyboard, on a phone, in dark mode."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.documents.site.page import page as written
from ci_compiler.github.benchmarks import LastBenchmark
from ci_compiler.github.status import BuildOutcome, LastBuild
from ci_compiler.plan.benchmarks import BenchmarkResult, Gain
from ci_compiler.plan.lookup import explain
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.records import Trace
from ci_compiler.reports.select import select
from ci_compiler.spec.build import bundled_spec
from tests.documents.browser import Page
from tests.documents.test_finder import LSCPU, SMI
from tests.histories import history
from tests.loops import each
from tests.plan.test_public_matrices import planned
from tests.reports.machines import Case
from tests.specs import small, spec_of

REPOSITORY = "my-org/build-pytorch"


@pytest.fixture(scope="module")
def bundled() -> Plan:
    return plan(bundled_spec())


@pytest.fixture(scope="module")
def address(bundled: Plan, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a file with the page of the bundled stack."""
    return file_of(tmp_path_factory.mktemp("site"), bundled, REPOSITORY)


def file_of(folder: Path, decided: Plan, repository: str = "") -> str:
    path = folder / "index.html"
    path.write_text(written(decided, repository), "utf-8")
    return path.as_uri()


def chosen(page: Page) -> str:
    return page.text("#answer .name")


def cells(page: Page, such: str = "") -> int:
    return int(page.run(f"document.querySelectorAll('#grids .cell{such}').length"))


# Choosing.


@pytest.mark.parametrize(
    ("gpu", "cpu", "driver", "package"),
    [
        ("RTX 4090", "Ryzen 9 7950X", "570.86", "torchvision"),
        ("dgx spark", "", "", "pytorch"),
        ("V100", "Skylake-SP", "580", "torchaudio"),
        ("none", "Graviton3", "", "pytorch"),
        ("GTX 1080 Ti", "i7-3770", "", "pytorch"),
    ],
)
def test_choosing(page: Page, address: str, bundled: Plan, gpu: str, cpu: str, driver: str, package: str) -> None:
    case = Case(gpu=gpu, cpu=cpu or None, driver=driver, best=None, branch="", package=package)
    expected = select(bundled.spec, bundled.judged.cells, case.machine, case.wishes)
    page.open(address)
    page.fill("#gpu", gpu)
    page.fill("#cpu", cpu)
    page.fill("#driver", driver)
    page.click(f"#packages label:has(input[value={package}])")
    assert expected.best is not None
    assert chosen(page) == expected.best.name
    assert page.text("#answer .command pre").splitlines() == list(expected.install)
    assert cells(page, ".best") == 1
    shown = page.text("#answer").casefold()
    for sentence in (
        *expected.problems,
        *expected.why,
        *expected.doubts,
        *expected.without,
        *(one.note for one in expected.better),
        *([f"cuDNN\n{expected.dnn}"] if expected.dnn else []),
    ):
        assert sentence.casefold() in shown
    page.click("#answer .others summary")
    rows = page.run("[...document.querySelectorAll('.notes li')].map(row => row.innerText)")
    assert len(rows) == len(expected.runners_up)
    for row, one in zip(rows, expected.runners_up, strict=True):
        assert one.offer.name in row
        assert f"{one.offer.branch} · {one.note}" in row


def test_an_unknown_driver_is_amber_and_a_known_one_green(page: Page, address: str) -> None:
    page.open(f"{address}#gpu=RTX+4090&cpu=Zen+4")
    assert "the driver here is not known" in page.text("#answer .why li.doubt")
    assert "if the driver runs it" in page.text("#answer .eyebrow")
    assert page.run("document.querySelector('#answer .tag').classList.contains('doubt')") is True
    page.fill("#driver", "580")
    assert page.run("document.querySelectorAll('#answer .doubt').length") == 0


def test_a_gpu_alone_gets_a_safe_answer_above_the_fold_of_a_phone(page: Page, address: str) -> None:
    page.open(f"{address}#gpu=RTX+4090", width=390, height=844, touch=True)
    assert chosen(page) == "pytorch-python313-cuda13_0-sm89-avx2"
    assert "Safe on most CPUs" in page.text("#answer .eyebrow")
    assert "avx2 runs on almost every one of the last ten years" in page.text("#answer .why")
    assert page.run("document.querySelector('#answer .command').getBoundingClientRect().bottom") < 844 - 100
    assert page.text("#answer .command pre").count("flox-cuda/") == 3
    assert page.run("document.querySelector('#answer .about a').href").startswith("https://flox.dev/")
    page.click("#answer .verify summary")
    assert "import torch, torchvision, torchaudio; print(" in page.text("#answer .verify pre")
    page.fill("#cpu", "Zen 4")
    assert chosen(page) == "pytorch-python313-cuda13_0-sm89-avx512"


def test_the_last_runs_are_shown_where_they_are_known(page: Page, tmp_path: Path) -> None:
    decided = plan(spec_of(small()))
    cell = next(one for one in decided.judged.cells if one.target == "sm90" and one.isa == "avx2")
    last = LastBuild(
        variant=cell.variants[0],
        cell=cell,
        result=BuildOutcome.FAILED,
        stages={"build": "success", "cpu-test": "timed_out"},
        url="https://example.org/1",
        started="2026-11-21T10:00:00Z",
    )
    found = BenchmarkResult(
        name=cell.variants[0].name,
        branch=cell.branch,
        beside=cell.variants[0].name,
        gains={"gpu": Gain(-0.4, 0.6)},
        machine="NVIDIA H100",
    )
    measured = LastBenchmark(
        variant=cell.variants[0],
        cell=cell,
        result=found,
        url="https://example.org/2",
        started="2026-11-20T10:00:00Z",
    )
    (tmp_path / "index.html").write_text(written(decided, REPOSITORY, [last], [measured]), "utf-8")
    page.open(f"{(tmp_path / 'index.html').as_uri()}#gpu=H100&cpu=avx2")
    said = "build success, cpu-test timed out November 21, 2026"
    assert page.text("#answer .run") == f"Last build failed: {said}"
    gain = "this build over the last publication: -0.4\u00a0%\u00a0±\u00a00.6, on NVIDIA H100, November 20, 2026"
    assert page.text("#answer .measured") == f"Measured: {gain}"
    assert page.run("document.querySelector('#answer .measured a').href") == "https://example.org/2"
    assert cells(page, ".failed") == 1
    page.click("[aria-label$=', failed when it was last built']")
    assert f"failed: {said}" in page.text("#opened")
    assert gain in page.text("#opened")
    page.press("Escape")
    page.fill("#gpu", "none")
    assert page.run("document.querySelectorAll('#answer .run').length") == 0


def test_what_is_installed_together_shows_each_result_that_differs(page: Page, tmp_path: Path) -> None:
    decided = plan(spec_of(small()))
    cell = next(one for one in decided.judged.cells if one.target == "sm90" and one.isa == "avx2")
    lasts = [
        LastBuild(variant=variant, cell=cell, result=result, stages={"build": end}, started="2026-11-21T10:00:00Z")
        for variant, result, end in zip(
            cell.variants, (BuildOutcome.PASSED, BuildOutcome.FAILED), ("success", "failure"), strict=True
        )
    ]
    shown = "[...document.querySelectorAll('#answer .run')].map((one) => one.textContent)"
    passed = "Last build passed: build success November 21, 2026"
    failed = "Last build of torchvision failed: build failure November 21, 2026"
    for known, said in ((lasts, [passed, failed]), ([lasts[0], replace(lasts[0], variant=cell.variants[1])], [passed])):
        (tmp_path / "index.html").write_text(written(decided, REPOSITORY, known), "utf-8")
        page.open(f"{(tmp_path / 'index.html').as_uri()}#gpu=H100&cpu=avx2")
        assert page.run(shown) == said
    page.click("#packages label:has-text('pytorch')")
    assert page.run(shown) == [passed]


def test_what_a_variant_is_made_of_is_linked_where_a_release_has_it(page: Page, tmp_path: Path) -> None:
    decided = plan(spec_of(small()))
    cell = next(one for one in decided.judged.cells if one.target == "sm90" and one.isa == "avx2")
    first, second = (variant.name for variant in cell.variants)
    tags = {("main", first): "pytorch/v2.8.0", ("main", second): "vision-v0.23.0"}
    release = f"https://github.com/{REPOSITORY}/releases/download"
    links = [f"{release}/pytorch%2Fv2.8.0/{first}.cdx.json", f"{release}/vision-v0.23.0/{second}.cdx.json"]
    shown = "[...document.querySelectorAll('{} a[href$=\".cdx.json\"]')].map((one) => one.href)"
    (tmp_path / "index.html").write_text(written(decided, REPOSITORY, sboms=tags), "utf-8")
    page.open(f"{(tmp_path / 'index.html').as_uri()}#gpu=H100&cpu=avx2")
    assert page.run(shown.format("#answer")) == links
    assert "Software bill of materials: pytorch, torchvision" in page.text("#answer")
    page.click("#packages label:has-text('torchvision')")
    assert page.run(shown.format("#answer")) == links[1:]
    page.click(".cell.best")
    assert page.run(shown.format("#opened")) == links
    assert page.violations() == []
    page.press("Escape")
    page.fill("#cpu", "avx512")
    assert page.run(shown.format("#answer")) == []
    (tmp_path / "index.html").write_text(written(decided, sboms=tags), "utf-8")
    page.open(f"{(tmp_path / 'index.html').as_uri()}#gpu=H100&cpu=avx2")
    assert page.run(shown.format("#answer")) == []


def test_an_answer_that_fails_begins_with_what_failed(page: Page, tmp_path: Path) -> None:
    decided = plan(spec_of(small()))
    made = history(decided, days=0)
    traces = {
        key: Trace(
            records=(replace(trace.records[0], result="failed", ends={"build": "success", "cpu-test": "failure"}),)
        )
        for key, trace in made.variants.items()
    }
    failing = replace(made, variants=traces)
    (tmp_path / "index.html").write_text(written(decided, REPOSITORY, records=failing), "utf-8")
    page.open(f"{(tmp_path / 'index.html').as_uri()}#gpu=H100&cpu=avx2")
    assert page.text("#answer .eyebrow").startswith("Best for your machine, failing")
    lines = page.run("[...document.querySelectorAll('#answer .why li')].map((one) => [one.className, one.textContent])")
    assert lines[0][0] == "failing"
    assert re.match(r"[a-z]+-test failed on 2026\u2011\d\d\u2011\d\d", lines[0][1])
    assert [kind for kind, _ in lines].index("") > [kind for kind, _ in lines].count("failing") - 1


def test_an_expected_failure_is_shown_with_its_result(page: Page, tmp_path: Path) -> None:
    entry = {"variants": "pytorch-*-sm90-*", "stage": "gpu-test", "because": "no kernels", "issue": "https://x.org/7"}
    for until, verb in (("2999-12-31", "is"), ("2020-01-01", "was")):
        decided = plan(spec_of(small(**{"expected-failures": [entry | {"until": until}]})))
        (tmp_path / "index.html").write_text(written(decided), "utf-8")
        page.open(f"{(tmp_path / 'index.html').as_uri()}#gpu=H100&cpu=avx2")
        assert f"gpu-test {verb} expected to fail until {until}: no kernels issue" in page.text("#answer")
        assert page.run("document.querySelector('#answer a[href=\"https://x.org/7\"]') !== null")
        assert page.violations() == []
        page.click("[aria-label^='sm90 avx2 on main:']")
        assert f"gpu-test {verb} expected to fail" in page.text("#opened")
        assert page.violations() == []


def test_what_is_switched_off_is_shown(page: Page, address: str) -> None:
    page.open(f"{address}#gpu=GTX+1080&cpu=Zen+4&driver=580")
    assert "Without cuDNN: convolutions" in page.text("#answer .why li.without")


def test_workload_and_branch(page: Page, address: str) -> None:
    page.open(f"{address}#gpu=H100&cpu=Sapphire+Rapids")
    page.click("#workloads label:has(input[value=bf16])")
    assert chosen(page) == "pytorch-python313-cuda13_0-sm90-avx512bf16"
    page.choose("#branch", "main")
    assert chosen(page) == "pytorch-python313-cuda12_8-sm90-avx512bf16"
    page.open(page.run("location.href"))
    assert chosen(page) == "pytorch-python313-cuda12_8-sm90-avx512bf16"


def test_a_wrong_name_offers_the_right_ones(page: Page, address: str) -> None:
    page.open(address)
    page.fill("#gpu", "DGX Sprak")
    assert "No GPU called DGX Sprak is known." in page.text("#gpu-told")
    assert page.run("document.getElementById('gpu').getAttribute('aria-invalid')") == "true"
    page.click("#gpu-told button")
    assert chosen(page) == "pytorch-python313-cuda13_0-sm121-armv9"
    page.fill("#cpu", "armv8.2")
    page.click("#cpu-told button")
    assert chosen(page) == "pytorch-python313-cuda13_0-sm121-armv8_2"
    page.fill("#driver", "new")
    assert "A driver's version is a number" in page.text("#driver-told")


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ("#gpu=DGX+Spark&cpu=Zen+4", "No such machine"),
        ("#gpu=none&cpu=Nehalem", "Nothing serves this machine"),
        ("#gpu=none&cpu=Nehalem", "Nearest with a CPU that runs avx: pytorch-python313-cpu-avx on cuda-13_0"),
        ("#gpu=Radeon+VII", "is not one of NVIDIA's GPUs"),
        ("#cpu=Zen+4", "Now name the GPU, or none"),
        ("#gpu=H100&cpu=Zen+44", "That CPU is not known here"),
        ("#gpu=__proto__&cpu=constructor", "No GPU called __proto__ is known"),
    ],
)
def test_machines_that_no_variant_fits(page: Page, address: str, machine: str, said: str) -> None:
    page.open(address + machine)
    assert said in page.text("main .finder")
    assert cells(page, ".best") == 0


def test_examples_fill_the_form(page: Page, address: str) -> None:
    page.open(address)
    for index in each(range(int(page.run("document.querySelectorAll('.examples button').length")))):
        page.open(address)
        page.click(f".examples button >> nth={index}")
        assert re.fullmatch(r"pytorch-python313-\S+", chosen(page))


def test_the_examples_are_machines_that_the_fleet_serves(page: Page, address: str, tmp_path: Path) -> None:
    shown = "[...document.querySelectorAll('.examples button')].map((one) => one.textContent)"
    page.open(address)
    assert len(page.run(shown)) == 5
    page.open(file_of(tmp_path, plan(spec_of(small()))))
    assert page.run(shown) == ["H100 + Xeon Platinum 8480+"]


# Pasting.


def test_pasting(page: Page, address: str) -> None:
    page.open(address)
    page.click("details.paste summary")
    page.fill("#paste", LSCPU + SMI)
    assert chosen(page) == "pytorch-python313-cuda12_9-sm90-avx512"
    assert page.run("document.getElementById('driver').value") == "570.86.15"
    assert "by its flags" in page.text("#cpu-told")
    assert "NVIDIA H100 80GB HBM3" in page.text("#paste-told")


def test_pasted_flags_go_before_the_cpu_s_name(page: Page, address: str) -> None:
    page.open(f"{address}#gpu=H100")
    page.click("details.paste summary")
    page.fill("#paste", LSCPU.replace(" avx512f", ""))
    assert chosen(page) == "pytorch-python313-cuda13_0-sm90-avx2"
    page.open(page.run("location.href"))
    assert chosen(page) == "pytorch-python313-cuda13_0-sm90-avx2"
    page.fill("#cpu", "Xeon Platinum 8480+")
    assert chosen(page) == "pytorch-python313-cuda13_0-sm90-avx512"


def test_pasting_one_thing_after_the_other(page: Page, address: str) -> None:
    page.open(address)
    page.click("details.paste summary")
    page.fill("#paste", LSCPU.replace(" avx512f", ""))
    page.fill("#paste", SMI)
    assert chosen(page) == "pytorch-python313-cuda12_9-sm90-avx2"


@pytest.mark.parametrize(
    ("text", "said"),
    [("hello", "No GPU or CPU is named in this."), ("GPU 0: NVIDIA GeForce ... (UUID: GPU-1)", "cut short")],
)
def test_output_that_cannot_be_read(page: Page, address: str, text: str, said: str) -> None:
    page.open(address)
    page.click("details.paste summary")
    page.fill("#paste", text)
    assert said in page.text("#paste-told")


# The matrix.


def test_the_matrix_is_whole(page: Page, address: str, bundled: Plan) -> None:
    page.open(address)
    assert page.text("#count") == "153 cells, 459 variants"
    assert cells(page, ":not(.out)") == len(bundled.judged.cells)
    assert cells(page, ".out") == len(bundled.judged.left_out)


@pytest.mark.parametrize(
    ("act", "wanted"),
    [
        (
            lambda page: page.fill("#words", "sm90 avx512vnni"),
            lambda cell: (cell.target, cell.isa) == ("sm90", "avx512vnni"),
        ),
        (
            lambda page: page.fill("#words", "l40s 12.9"),
            lambda cell: (cell.target, cell.branch) == ("sm89", "cuda-12_9"),
        ),
        (lambda page: page.choose("#system", "aarch64-linux"), lambda cell: cell.isa.startswith("arm")),
        (lambda page: page.fill("#words", "no such thing"), lambda _: False),
    ],
)
def test_filtering(
    page: Page, address: str, bundled: Plan, act: Callable[[Page], None], wanted: Callable[[Any], bool]
) -> None:
    page.open(address)
    act(page)
    expected = [cell for cell in bundled.judged.cells if wanted(cell)]
    variants = sum(len(cell.variants) for cell in expected)
    assert page.text("#count") == f"{len(expected)} of 153 cells, {variants} of 459 variants"
    assert cells(page, ":not(.dim):not(.out)") == len(expected)


def test_filtering_by_tests_and_machine(page: Page, address: str, bundled: Plan) -> None:
    page.open(f"{address}#gpu=RTX+4090&cpu=i9-12900K&driver=570")
    page.choose("#tested", "full")
    full = [
        route
        for cell, route in zip(bundled.judged.cells, bundled.routes, strict=True)
        if {stage.name for stage in route.pools} >= {"cpu-test" if cell.target == "cpu" else "gpu-test"}
    ]
    assert page.text("#count").startswith(f"{len(full)} of 153 cells")
    page.choose("#tested", "")
    page.click("#mine")
    runs = [
        cell
        for cell in bundled.judged.cells
        if cell.isa in {"avx", "avx2"}
        and (cell.target == "cpu" or (cell.target in {"sm80", "sm86", "sm89"} and cell.branch != "cuda-13_0"))
    ]
    assert page.text("#count").startswith(f"{len(runs)} of 153 cells")


@pytest.mark.parametrize(
    ("cell", "variant"),
    [
        ("sm90 avx512 on main", "pytorch-python313-cuda12_8-sm90-avx512"),
        ("sm75 armv9 on cuda-13_0", "torchvision-python313-cuda13_0-sm75-armv9"),
    ],
)
def test_a_cell_opens_into_all_about_it(page: Page, address: str, bundled: Plan, cell: str, variant: str) -> None:
    [built] = explain(bundled, variant).built
    page.open(address)
    page.click(f"[aria-label^='{cell}:']")
    shown = page.text("#opened")
    for stage, where in built.stages():
        assert re.search(rf"{stage}\s+{re.escape(where)}", shown)
    assert built.version in shown
    assert built.dispatch.replace(variant, f"pytorch-{built.cell.suffix}") in shown.replace("\n", "")
    links = page.run("[...document.querySelectorAll('#opened a')].map(a => [a.textContent, a.href])")
    recipes = [f"{one.name}.nix" for one in built.cell.variants]
    root = f"https://github.com/{REPOSITORY}"
    assert links == [
        *([name, f"{root}/blob/{built.cell.branch}/.flox/pkgs/{name}"] for name in recipes),
        [f"{built.shard.name}.yml", f"{root}/actions/workflows/{built.shard.name}.yml"],
    ]
    page.click("#opened button:has-text('Close')")
    assert page.run("document.getElementById('opened').open") is False


def test_what_is_left_out_says_why(page: Page, address: str) -> None:
    page.open(address)
    page.click("[aria-label^='sm61 avx2 on cuda-13_0']")
    assert "CUDA 12.9 was the last to know sm61" in page.text("#opened")


def test_without_a_repository_there_are_no_links(page: Page, bundled: Plan, tmp_path: Path) -> None:
    page.open(file_of(tmp_path, bundled))
    page.click("[aria-label^='sm90 avx512 on main:']")
    assert page.run("document.querySelectorAll('a[href]').length") == 0
    assert ".flox" not in page.text("footer")


# Copying.


def copied(page: Page) -> str:
    """The text on the clipboard, after the page says that it has copied it."""
    page.wait("#copied:has-text('Copied')")
    return str(page.run("navigator.clipboard.readText()"))


def test_copying(page: Page, address: str) -> None:
    page.open(f"{address}#gpu=RTX+4090&cpu=Zen+4&package=torchvision")
    page.click("#answer .command button")
    both = "flox-cuda/pytorch-python313-cuda13_0-sm89-avx512 flox-cuda/torchvision-python313-cuda13_0-sm89-avx512"
    assert copied(page) == f"flox install {both}"


def test_copying_out_of_a_cell(page: Page, address: str) -> None:
    page.open(address)
    page.click("[aria-label^='cpu avx2 on main:']")
    page.click("#opened td button >> nth=0")
    assert copied(page) == "flox install flox-cuda/pytorch-python313-cpu-avx2@2.8.0"


def test_copying_without_a_clipboard(page: Page, address: str) -> None:
    page.open(f"{address}#gpu=RTX+4090&cpu=Zen+4&package=pytorch")
    page.run("navigator.clipboard.writeText = () => Promise.reject(new Error('no'))")
    page.click("#answer .command button")
    assert copied(page) == "flox install flox-cuda/pytorch-python313-cuda13_0-sm89-avx512"


# By keyboard.


def tab_to(page: Page, wanted: str, key: str = "Tab") -> None:
    for _ in range(60):
        if page.focus.startswith(wanted):
            return
        page.press(key)
    pytest.fail(f"no {key} leads to {wanted}")


def test_everything_works_with_the_keyboard_only(page: Page, address: str) -> None:
    page.open(address)
    tab_to(page, "gpu")
    page.type("RTX 4090")
    tab_to(page, "cpu")
    page.type("Zen 4")
    tab_to(page, "Copy: flox install")
    page.press("Enter")
    assert copied(page).endswith(" flox-cuda/torchaudio-python313-cuda13_0-sm89-avx512")
    tab_to(page, "all")
    page.press("ArrowRight", "ArrowRight")
    assert chosen(page) == "torchvision-python313-cuda13_0-sm89-avx512"
    tab_to(page, "words")
    page.type("sm89")
    tab_to(page, "cpu avx2 on main")
    page.press("ArrowDown", "ArrowDown")
    assert page.focus.startswith("sm80 avx2 on main")
    page.press("End")
    assert page.focus.startswith("sm80 armv9 on main")
    page.press("ArrowLeft", "ArrowUp")
    assert page.focus.startswith("cpu armv8_2 on main")
    page.press("Home", "ArrowRight")
    assert page.focus.startswith("cpu avx512 on main")
    page.press("Enter")
    assert page.text("#opened .name") == "python313-cpu-avx512"
    page.press("Escape")
    assert page.focus.startswith("cpu avx512 on main")
    page.press("Tab")
    assert page.focus.startswith("cpu avx2 on cuda-12_9")


def test_the_focus_can_be_seen(page: Page, address: str) -> None:
    page.open(address)
    for _ in range(14):
        page.press("Tab")
        widths = page.run(
            "[document.activeElement, document.activeElement.nextElementSibling].filter(Boolean)"
            ".map(e => parseFloat(getComputedStyle(e).outlineWidth) * (getComputedStyle(e).outlineStyle !== 'none'))"
        )
        assert max(widths) >= 2, page.focus


def test_the_focus_can_be_seen_in_a_cell_that_does_not_run_on_the_machine(page: Page, address: str) -> None:
    page.open(f"{address}#gpu=H100&cpu=Zen+4")
    faded = "document.querySelector('[aria-label^=\"sm80 avx2 on main\"]')"
    opacity = f"getComputedStyle({faded}).opacity"
    assert float(page.run(opacity)) < 0.5
    tab_to(page, "words")
    tab_to(page, "cpu avx2 on main")
    page.press("ArrowDown", "ArrowDown")
    assert page.focus.startswith("sm80 avx2 on main")
    assert float(page.run(opacity)) == 1


# On any screen.


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_window_needs_scrolling_sideways(page: Page, address: str, width: int) -> None:
    page.open(f"{address}#gpu=V100&cpu=Skylake-SP&package=torchvision", width=width, height=800, touch=True)
    page.click("#answer .others summary")
    assert page.run("document.scrollingElement.scrollWidth") <= width
    bounds = "document.querySelector('{}').getBoundingClientRect().{}"
    assert page.run(bounds.format("#summary", "top")) >= page.run(bounds.format("h1", "bottom"))
    page.click("[aria-label^='sm90 avx512 on main:']")
    assert page.run("(d => d.scrollWidth - d.clientWidth)(document.getElementById('opened'))") <= 0
    targets = "#grids button, #opened button, form label:has(input), .field input, form select"
    smallest = page.run(
        f"Math.min(...[...document.querySelectorAll('{targets}')]"
        ".map(e => e.getBoundingClientRect().height).filter(Boolean))"
    )
    assert smallest >= 24  # WCAG 2.2, 2.5.8


CONTRAST = """(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => [r, g, b].map((v) => linear(v / 255))
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const own = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  return [...document.querySelectorAll('body *')].filter((e) => own(e) && e.checkVisibility() && !e.closest('.hidden')
    && !['SCRIPT', 'OPTION', 'NOSCRIPT'].includes(e.tagName)).map((e) => {
      const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
      return [(a + 0.05) / (b + 0.05), e.textContent.slice(0, 40)];
    }).filter(([ratio]) => ratio < 4.5);
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("machine", ["", "#gpu=V100&cpu=Nehalem", "#gpu=RTX+4090&cpu=Zen+4&driver=570", "#gpu=RTX+1"])
def test_light_and_dark_can_be_read(page: Page, address: str, scheme: str, machine: str) -> None:
    page.open(address + machine, scheme=scheme)
    red, green, blue = map(int, re.findall(r"\d+", page.run("getComputedStyle(document.body).backgroundColor"))[:3])
    assert (red + green + blue > 3 * 128) is (scheme == "light")
    assert page.run(CONTRAST) == []


def test_the_theme_can_be_chosen(page: Page, address: str) -> None:
    page.open(address, scheme="light")
    page.click("#theme")
    page.click("#theme")
    assert page.text("#theme") == "Theme: dark"
    assert page.run("getComputedStyle(document.body).colorScheme") == "dark"
    page.reload()
    assert page.text("#theme") == "Theme: dark"


# Any spec.


def test_other_specs(page: Page, tmp_path: Path) -> None:
    matrix = {
        "python": ["3.12", "3.13"],
        "isas": {"x86_64-linux": ["avx2"], "aarch64-linux": []},
        "gpus": {"sm90": {}, "sm103": {}, "cpu": {}},
    }
    branches = small()["branches"] | {
        "9": {"cuda": "13.0", "nixpkgs": "a" * 40, "versions": {"pytorch": "2.10.0", "torchvision": "0.25.0"}},
        "rel/1": {"cuda": "12.9", "nixpkgs": "a" * 40, "versions": {"pytorch": "2.9.0", "torchvision": "0.24.0"}},
    }
    decided = plan(spec_of(small(matrix=matrix, branches=branches)))
    page.open(file_of(tmp_path, decided) + "#gpu=B300&cpu=avx2&python=3.12")
    assert page.run("[...document.querySelectorAll('.panel h3')].map(e => e.innerText)") == ["main", "9", "rel/1"]
    assert chosen(page) == "pytorch-python312-cuda13_0-sm103-avx2"
    assert cells(page, ".best") == 0
    page.choose("#shown-python", "3.12")
    assert cells(page, ".best") == 1
    own = [cell for cell in decided.judged.cells if cell.python == "3.12"]
    assert page.text("#count") == f"{len(own)} cells, {2 * len(own)} variants"


def test_every_variant_of_an_open_matrix_has_a_cell_of_its_own(page: Page, tmp_path: Path) -> None:
    decided = planned("flash-attention")
    page.open(file_of(tmp_path, decided) + "#gpu=H100&cpu=znver4")
    assert chosen(page) == "flash-attn-python313-torch2_10_0-abiTRUE-cuda13_0-x86_64-linux"
    for python in decided.spec.pythons:
        page.choose("#shown-python", python)
        built = [cell for cell in decided.judged.cells if cell.python == python]
        out = sum(one.python == python for one in decided.judged.left_out)
        assert cells(page, ":not(.out)") == len(built)
        assert cells(page, ".out") == out
    page.open(file_of(tmp_path, planned("llama-cpp")))
    assert cells(page) == 22


def test_nothing_of_the_spec_is_markup(page: Page, tmp_path: Path) -> None:
    reason = "</script><img src=x onerror=alert(1)><!-- & ]]> ${alert(1)} \"'"
    matrix = small()["matrix"] | {"exclude": [{"variants": "*-cpu-avx2", "because": reason}]}
    page.open(file_of(tmp_path, plan(spec_of(small(matrix=matrix)))))
    page.click("[aria-label^='cpu avx2 on main']")
    assert reason in page.text("#opened")
    assert page.run("document.querySelectorAll('img').length") == 0


def test_nix_s_commands(page: Page, tmp_path: Path) -> None:
    cache = {"url": "https://cache.example.org", "public-key": "k:" + "A" * 43 + "="}
    decided = plan(spec_of(small(backend="nix", cache=cache)))
    page.open(file_of(tmp_path, decided) + "#gpu=H100&cpu=avx2")
    case = Case(gpu="H100", cpu="avx2", driver="", best=None, branch="")
    expected = select(decided.spec, decided.judged.cells, case.machine, case.wishes, everything=True)
    assert page.text("#answer .command pre").splitlines() == list(expected.install)
    page.click("#answer .verify summary")
    assert page.text("#answer .verify pre").splitlines() == list(expected.verify)


def test_a_page_of_a_thousand_cells(page: Page, tmp_path: Path) -> None:
    isas = {"x86_64-linux": ["avx2", "avx512", "avx512bf16", "avx512vnni"], "aarch64-linux": ["armv8_2", "armv9"]}
    gpus: dict[str, Any] = {name: {} for name in ("cpu", "sm75", "sm80", "sm86", "sm89", "sm90", "sm100", "sm120")}
    branches = {
        f"b{index}": small()["branches"]["main"] | {"versions": {"pytorch": f"2.{index}"}} for index in range(8)
    }
    pools = json.loads(json.dumps(small()["runners"])) | {
        "arm": {"runs-on": ["self-hosted", "linux", "arm64"], "cpu": ["armv9"]}
    }
    matrix = {"python": ["3.11", "3.12", "3.13"], "isas": isas, "gpus": gpus}
    spec = spec_of(small(branches=branches, packages={"pytorch": {}}, matrix=matrix, runners=pools))
    decided = plan(spec)
    assert len(decided.judged.cells) > 1000
    page.open(file_of(tmp_path, decided) + "#gpu=L4&cpu=Zen+4")
    assert chosen(page) == "pytorch-python313-cuda12_8-sm89-avx512"
    assert "b7" in page.text("#answer .facts")
