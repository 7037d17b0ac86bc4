"""The names, members and paths that a Nix file mentions, and its tokens."""

from __future__ import annotations

import pytest

from ci_compiler.recipes.identifiers import Mentions, mentions, tokens_of


@pytest.mark.parametrize(
    ("text", "names", "members", "paths"),
    [
        ("pkgs.lib.x", "pkgs lib x", "lib x", ""),
        ("# comment\nused /* not\nused */", "used", "", ""),
        ("{ a ? default, b }: b", "a default b", "", ""),
        ("{ b, a ? default }: a", "a default b", "", ""),
        ("b ? asked", "b", "", ""),
        ("b.maybe or other", "b other", "", ""),
        ("b.maybe.sure", "b maybe sure", "maybe sure", ""),
        ("{ inherit (b.c) taken also; inherit own; }", "b c taken also own", "c taken also", ""),
        ("{ inherit ((b) d) taken; other = 1; }", "b d taken other", "taken", ""),
        ("inherit (b)", "b", "", ""),
        ("if true then null else false", "", "", ""),
        ("assert a; let b = rec { }; in with c; throw d", "a b c d", "", ""),
        ("builtins.map toString (import ./x.nix)", "", "", "./x.nix"),
        ("abort a", "a", "", ""),
        (
            "[ ./file.nix ../lib ~/home a/b <nixpkgs/nixos> /etc/x ]",
            "",
            "",
            "./file.nix ../lib ~/home a/b <nixpkgs/nixos> /etc/x",
        ),
        ("a // b", "a b", "", ""),
        ("h//i", "h i", "", ""),
        ('"python3Packages"', "python3Packages", "", ""),
        ('"two words"', "", "", ""),
        ('"${b.d "inner ${e}"} $f \\${g} \\" h"', "b d e", "d", ""),
        ("x: \"a\" + ''it's ''${no} ''' $$ ${g}'' + y", "x a g y", "", ""),
        ("''\n${{ a = { b = c; }; }.a}\n'' d", "a b c d", "a", ""),
        ("1.5 + a1", "a1", "", ""),
        ("a'b-c", "a'b-c", "", ""),
        ('a."b".c', "a b c", "c", ""),
        ("", "", "", ""),
        ('"never closed ${a', "a", "", ""),
    ],
)
def test_what_a_file_mentions(text: str, names: str, members: str, paths: str) -> None:
    found = mentions(text)
    assert found.names == {*names.split()}
    assert found.members == {*members.split()}
    assert found.paths == {*paths.split()}


def test_what_several_files_mention() -> None:
    both = Mentions.together(mentions(text) for text in ("a.b", "c ./d"))
    assert both == Mentions(names=frozenset("abc"), members=frozenset("b"), paths=frozenset({"./d"}))
    assert Mentions.together([]) == Mentions()


def test_tokens_have_their_kinds_and_places() -> None:
    text = """{ a = "b${./c}"; } # d\n''e''"""
    assert [(kind, word) for kind, word, _ in tokens_of(text)] == [
        ("mark", "{"),
        ("name", "a"),
        ("mark", "="),
        ("mark", '"'),
        ("string", "b"),
        ("mark", "${"),
        ("path", "./c"),
        ("mark", "}"),
        ("mark", '"'),
        ("mark", ";"),
        ("mark", "}"),
        ("comment", "# d"),
        ("mark", "''"),
        ("string", "e"),
        ("mark", "''"),
    ]
    assert all(text[start:].startswith(word) for _, word, start in tokens_of(text))
