# What is known of a nixpkgs revision: the default Python and toolkit, the releases of its packages, which a recipe has
# that sets no version, and the arguments of their functions. An unknown revision has the values of `newest` so that
# recipes evaluate; `knows` tells, and the record says so.
#
# `known` is the Nix file that the driver makes of its tables (ci_compiler/adoption/known_pins.py). Nix itself refuses
# an argument that is not among the formal parameters of nixpkgs' own functions.
{ known }:
let
  facts = import known;
in
{
  inherit (facts) families unfree;

  knows = revision: facts.pins ? ${revision};

  of = revision: facts.pins.${revision} or facts.pins.${facts.newest};

  # The function of the package `attribute`; null if its parameters are not known.
  functionOf = revision: attribute: facts.pins.${revision}.functions.${attribute} or null;
}
