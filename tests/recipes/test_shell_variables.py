"""The environment after shell code, which is read and not run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ci_compiler.recipes.shell_variables import PHASES, exported, words

Environment = Mapping[str, str]


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("", {"a": "1"}, {"a": "1"}),
        ("# export NOT=1", {}, {}),
        ("export A=1 # B=2", {}, {"A": "1"}),
        ('export F="-mavx2 -mfma $F"', {}, {"F": "-mavx2 -mfma $F"}),
        ('export F="-mavx2 $F"', {"F": "-O2"}, {"F": "-mavx2 -O2"}),
        ('export F="$F -a"; export F="$F -b"', {}, {"F": "$F -a -b"}),
        ("export ONE=1 TWO='two $words'", {}, {"ONE": "1", "TWO": "two $words"}),
        ("F+=-b", {"F": "-a "}, {"F": "-a -b"}),
        ("export F+=-b", {}, {"F": "-b"}),
        ("A=1", {}, {}),
        ("A=1", {"A": "0"}, {"A": "1"}),
        ("A=1\nexport A", {}, {"A": "1"}),
        ("export A", {}, {}),
        ("A=1 make", {"A": "0"}, {"A": "0"}),
        ("A=1 B=2", {"A": "", "B": ""}, {"A": "1", "B": "2"}),
        ("declare A=1; local B=2; readonly C=3; typeset D=4", {}, {}),
        ("declare -x A=1; typeset -x B=2", {}, {"A": "1", "B": "2"}),
        ("echo -x A=1; make -x export B=1", {}, {}),
        ('echo "export A=1"; echo "it\'s"; export B=2', {}, {"B": "2"}),
        ("if true; then export A=1; else export B=2; fi", {}, {"A": "1", "B": "2"}),
        ("if export A=1; then :; fi; while ! export B=1; do time export C=1; done", {}, {"A": "1", "B": "1", "C": "1"}),
        ("f() { export A=1; }", {}, {"A": "1"}),
        ("true && export A=1 || export B=2 & (export C=3)", {}, {"A": "1", "B": "2", "C": "3"}),
        ("export A=1 >log 2>&1", {}, {"A": "1"}),
        ("cat >x <<EOF\nexport NOT=1\nEOF\nexport A=1", {}, {"A": "1"}),
        ("cat >x <<-'E F'", {}, {}),
        ("cat <<-'A' <<\"B\"\nexport NOT=1\n\tA\nexport NOR=1\nB \nexport C=1", {}, {"C": "1"}),
        ("cat <<EOF; export A=1\nexport NOT=1\nEOF", {}, {"A": "1"}),
        ("cat <<EOF\nexport NOT=1", {}, {}),
        ("export A=$B \\\n  C=1", {"B": "b"}, {"A": "b", "B": "b", "C": "1"}),
        ('export A="a\\\nb"c\\\nd', {}, {"A": "abcd"}),
        ('export A=\\$B"\\$C \\" \\\\ \\x"', {"B": "b", "C": "c"}, {"A": '$B$C " \\ \\x', "B": "b", "C": "c"}),
        ("export A=\"\" B=''", {}, {"A": "", "B": ""}),
        ("export A=a'b'\"c\"d", {}, {"A": "abcd"}),
        ("export A=${B} C=${D}", {"B": "b"}, {"A": "b", "B": "b", "C": "$D"}),
        ("export A=${U:-by default} B=${U-x}", {}, {"A": "by default", "B": "x"}),
        ("export A=${B:-x} C=${B:+y} D=${U:+y}", {"B": "b"}, {"A": "b", "B": "b", "C": "y", "D": ""}),
        ("export A=$(date; true) B=`x y`", {}, {"A": "$(date; true)", "B": "`x y`"}),
        ('appendToVar F -b "c d"', {"F": "-a"}, {"F": "-a -b c d"}),
        ("prependToVar F -b $G", {"F": "-a", "G": "g"}, {"F": "-b g -a", "G": "g"}),
        ("appendToVar F -b; export F", {}, {"F": "-b"}),
        ("appendToVar F", {"F": "-a"}, {"F": "-a"}),
        ("export A=1; '", {}, {"A": "1"}),
    ],
)
def test_the_environment_after_shell_code(text: str, before: Environment, after: Environment) -> None:
    assert exported(text, before) == after
    assert list(exported(text, before)) == sorted(after)


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("", ()),
        ("-mavx  -mfma\n-O2", ("-mavx", "-mfma", "-O2")),
        ('$CXXFLAGS -I$PWD/x "-D A" $a', ("-I$PWD/x", "-D A")),
        ("it's -a", ("it's", "-a")),
    ],
)
def test_the_words_of_a_value(text: str, split: tuple[str, ...]) -> None:
    assert words(text) == split


def test_the_phases_are_in_the_order_of_a_build() -> None:
    """nixpkgs manual, "Phases"; the hooks of a phase are around it."""
    phases = ["unpack", "patch", "configure", "build"]
    assert [one for one in PHASES if one.endswith("Phase")] == [f"{one}Phase" for one in phases[1:]]
    hooks = {f"{when}{phase.title()}" for phase in phases for when in ("pre", "post")} - {"preUnpack", "postBuild"}
    assert {one for one in PHASES if not one.endswith("Phase")} == hooks
    order = [next(at for at, phase in enumerate(phases) if phase in one.lower()) for one in PHASES]
    assert order == sorted(order)
    assert PHASES.index("preConfigure") < PHASES.index("configurePhase") < PHASES.index("postConfigure")
