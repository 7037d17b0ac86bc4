"""The parts of the evaluation: syntax, error messages, shell code, the names in a Nix file."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from ci_compiler.adoption import nix_instantiate as nix
from ci_compiler.adoption.evaluator import parse
from ci_compiler.recipes.identifiers import mentions
from ci_compiler.recipes.shell_variables import exported, words
from tests.adoption.helpers import STANDIN, needs_nix, write


@needs_nix
def test_syntax_errors_are_found_in_every_file(tmp_path: Path) -> None:
    write(tmp_path, a="1", b="{ a = ; }", c="{ lib }: lib.x", d="\nundefined", e="[ ")
    files = [*sorted(tmp_path.glob("*.nix")), tmp_path / "missing.nix"]
    assert [(f.place.file, f.place.line, f.place.column, f.message) for f in parse(files)] == [
        (str(tmp_path / "b.nix"), 1, 7, "syntax error, unexpected ';'"),
        (str(tmp_path / "d.nix"), 2, 1, "undefined variable 'undefined'"),
        (str(tmp_path / "e.nix"), 1, 2, "syntax error, unexpected end of file"),
        (str(tmp_path / "missing.nix"), 0, 0, "there is no such file"),
    ]
    assert {finding.code for finding in parse(files)} == {"recipe-syntax"}


@needs_nix
def test_the_stand_in_parses() -> None:
    files = sorted(STANDIN.rglob("*.nix"))
    assert len(files) > 10
    assert parse(files) == ()


def test_error_messages_of_newer_nix_are_read() -> None:
    text = dedent("""
        error:
               … while calling the 'foldl'' builtin
                 at /standin/main.nix:50:1:
               … while evaluating the attribute 'pname'
                 at /recipes/a.nix:3:5:
                    2| x
               … while calling a function
                 at /standin/lib/lists.nix:9:3:
               error: attribute 'x' missing
               at /recipes/lib/b.nix:7:9:
                    6| y
    """)
    nearest = nix.failure(text, [Path("/recipes")])
    assert (nearest.message, nearest.file, nearest.line) == ("attribute 'x' missing", Path("/recipes/lib/b.nix"), 7)
    without = nix.failure(text.replace("at /recipes/lib/b.nix:7:9:", ""), [Path("/recipes")])
    assert (without.file, without.line) == (Path("/recipes/a.nix"), 3)
    assert nix.failure("", []).message == "nix-instantiate failed: it ended without a message"


def test_shell_variables() -> None:
    text = dedent("""
        # export NOT=1
        export CXXFLAGS="-mavx2 -mfma $CXXFLAGS"   # at the front
        export CFLAGS="$CFLAGS -mavx2" ONE=1 TWO='two $words'
        CXXFLAGS+=" -O2"
        echo "export ECHOED=1"; echo "it's"; export MAX_JOBS=32
        if [ -n "$x" ]; then export IN_IF=1; fi
        cat > file <<'EOF'
        export IN_TEXT=1
        EOF
        export LATER=$MAX_JOBS \\
          NEXT="${UNSET:-by default}"
        FOR_ONE=1 make
        SHELL_ONLY=2
        EXPORTED_LATER=3
        export EXPORTED_LATER
        appendToVar known -b "c d"
    """)
    assert exported(text, {"known": "-a"}) == {
        "CXXFLAGS": "-mavx2 -mfma $CXXFLAGS -O2",
        "CFLAGS": "$CFLAGS -mavx2",
        "ONE": "1",
        "TWO": "two $words",
        "MAX_JOBS": "32",
        "IN_IF": "1",
        "LATER": "32",
        "NEXT": "by default",
        "EXPORTED_LATER": "3",
        "known": "-a -b c d",
    }
    assert words('$CXXFLAGS -I$PWD/x "-D A" -mavx') == ("-I$PWD/x", "-D A", "-mavx")
    assert words("it's") == ("it's",)


def test_mentions_of_a_nix_file() -> None:
    told = mentions(
        """
        # comment
        { a ? default, b }: with a; (b ? asked) || b.maybe or other /* comment */ ;
        { inherit (b.c) taken; x = "text ${b.d "inner ${e}"} $f"; y = ''it's ''${no} ''' $$ ${g}''; }
        [ ./file.nix ../lib <nixpkgs> "python3Packages" 1.5 h//i ]
        """
    )
    assert told.names == {
        "a", "default", "b", "other", "c", "taken", "x", "d", "e", "y", "g", "python3Packages", "h", "i",
    }  # fmt: skip
    assert told.members == {"c", "taken", "d"}
    assert told.paths == {"./file.nix", "../lib", "<nixpkgs>"}
