"""The manifest is written atomically and read strictly, because its values are used in command lines elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_compiler.backends import backend_of
from ci_compiler.errors import InputError
from ci_compiler.reports.history import read_history
from ci_compiler.runner.jobs.files import write_json
from ci_compiler.runner.jobs.manifest import Builder, Manifest, expect, read_manifest
from ci_compiler.stages import GPU_TEST

PATH = "/nix/store/00000000000000000000000000000000-pytorch-2.8.0"
MANIFEST = Manifest(
    name="pytorch-python313-cpu-avx2",
    package="pytorch",
    version="2.8.0",
    branch="main",
    commit="c" * 40,
    nixpkgs="f" * 40,
    backend=backend_of("nix"),
    derivation=f"{PATH}.drv",
    store_path=PATH,
    outputs=(PATH, f"{PATH}-dev"),
    closure_size=3_000_000_000,
    closure={PATH: f"sha256:{'0' * 52}", f"{PATH}-dev": f"sha256:{'1' * 52}"},
    started="2026-11-01T12:00:00Z",
    seconds=7200.5,
    built=True,
    machine=Builder(system="x86_64-linux", cpu="AMD EPYC 9554", cores=32),
    untested={GPU_TEST.name: "no pool has one"},
    seed={"found": 20, "of": 21},
)

WRONG: dict[str, list[Any]] = {
    "name": ["--option", "a b", "", None, 1],
    "package": ["../x"],
    "version": [2.8, "a\nb"],
    "branch": [None, "\x1b[0m"],
    "commit": ["main", "C" * 40, "c" * 39],
    "nixpkgs": ["main"],
    "backend": ["guix", None],
    "derivation": ["--delete", "store/x.drv"],
    "store_path": ["--all", "/etc/passwd", f"{PATH} --all", f"{PATH}/../x", "/nix/store/e-x", [PATH]],
    "outputs": [PATH, ["--all"], [1], None],
    "closure_size": [-1, 1.5, True, "3 GB"],
    "closure": [[], {"--all": f"sha256:{'0' * 52}"}, {PATH: "sha256:e"}, {PATH: None}],
    "started": ["yesterday", "2026-11-01T12:00:00", 0],
    "seconds": [-1, "12", True, None],
    "built": ["yes", 1, None],
    "machine": [
        {},
        "x86",
        {"system": "a", "cpu": "b", "cores": "c"},
        {"system": "a", "cpu": "b", "cores": 1, "host": "h"},
    ],
    "seed": [[], 20, {"found": 20}, {"found": 2, "of": 1}, {"found": -1, "of": 1}, {"found": "1", "of": 1}],
    "untested": [[], {"build": 1}, {"paint": "why"}],
}


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "manifest.json"
    write_json(path, MANIFEST.as_json())
    content = json.loads(path.read_text("utf-8")) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value != "absent"}), "utf-8")
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    write_json(path, MANIFEST.as_json())
    assert read_manifest(path) == MANIFEST
    assert [one.name for one in tmp_path.iterdir()] == ["manifest.json"]


def test_the_forecast_reads_it(tmp_path: Path) -> None:
    write_json(tmp_path / "manifest.json", MANIFEST.as_json())
    assert read_history(tmp_path).seconds == {("main", MANIFEST.name, "build"): 7200}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in WRONG.items() for value in values])
def test_a_value_of_another_form_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(InputError) as raised:
        read_manifest(written(tmp_path, **{key: value}))
    assert [finding.message for finding in raised.value.findings] == [f"the value of {key!r} is not what builds write"]


def test_unknown_and_missing_keys_are_refused_and_all_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        read_manifest(written(tmp_path, commit="absent", comit="c" * 40, seconds=-1))
    assert [finding.message for finding in raised.value.findings] == [
        "has no 'commit'",
        "has an unknown key 'comit'; did you mean commit?",
        "the value of 'seconds' is not what builds write",
    ]


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "the value of 'store_path' is not among the 'outputs'": {"outputs": []},
    f"the 'closure' has no hash of the output {PATH}-dev": {"closure": {PATH: f"sha256:{'0' * 52}"}},
}


@pytest.mark.parametrize(("message", "changes"), CONTRADICTIONS.items())
def test_outputs_without_content_and_a_result_that_is_no_output_are_refused(
    tmp_path: Path, message: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(InputError) as raised:
        read_manifest(written(tmp_path, **changes))
    assert [finding.message for finding in raised.value.findings] == [message]


@pytest.mark.parametrize("text", ["", "[]", "{", "\ufffd", "[" * 100_000, "null", "NaN"])
def test_a_file_that_is_not_a_manifest_is_reported_on_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match="broken-manifest"):
        read_manifest(path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_manifest(tmp_path / "nowhere")


VALUES = st.recursive(
    st.text(max_size=9) | st.integers() | st.none(), lambda one: st.lists(one, max_size=3), max_leaves=5
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(sorted(WRONG)), VALUES))
def test_no_value_that_could_be_an_option_is_accepted(changes: dict[str, Any]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        try:
            read = read_manifest(written(Path(folder), **changes))
        except InputError:
            return
    for value in (read.name, read.store_path, read.derivation, *read.outputs, read.commit):
        assert not value.startswith("-")
        assert not set(value) & set(" \t\n\0'\"$;")


def test_a_manifest_must_match_what_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path)
    expect(MANIFEST, path, name=MANIFEST.name, branch="main")
    with pytest.raises(InputError) as raised:
        expect(MANIFEST, path, name="other", branch="main", commit="d" * 40)
    assert [finding.message for finding in raised.value.findings] == [
        f"states the name {MANIFEST.name}, not other",
        f"states the commit {'c' * 40}, not {'d' * 40}",
    ]
