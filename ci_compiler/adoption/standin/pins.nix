# What is known of a nixpkgs revision (ci_compiler/spec/releases.json): the default Python and CUDA, the releases of its
# packages, which a recipe has that sets no version, and the arguments of their functions. An unknown revision has the
# values of `newest` so that recipes evaluate; `knows` tells, and the record says so.
#
# `functions` is a Nix file that the driver makes from the same facts (ci_compiler/adoption/known_pins.py): for each
# revision and package, a function with the formal parameters of nixpkgs' own, which returns what it is called with. Nix
# itself refuses an argument that is not among them.
{ functions }:
let
  facts = builtins.fromJSON (builtins.readFile ../../spec/releases.json);
in
{
  knows = revision: facts.pins ? ${revision};

  of = revision: facts.pins.${revision} or facts.pins.${facts.newest};

  # The function of the package `attribute`; null if its parameters are not known.
  functionOf = revision: attribute: (import functions).${revision}.${attribute} or null;

  # The release that a `cudaPackages_<major>` stands for.
  cudaOfMajor = { "10" = "10.2"; "11" = "11.8"; "12" = "12.8"; "13" = "13.0"; };
}
