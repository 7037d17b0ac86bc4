{ a ? "x${b.c or "d"}" , ... }: with (import <nixpkgs> { }); rec {
  inherit (a.b) c d'; e = '' ${f} ''${g} $$ ''' ''\n ''; h = ./x/y + /z; k = a // b.${"q"}; /* # */ # "
}
