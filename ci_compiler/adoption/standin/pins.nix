# What is known of a nixpkgs revision (ci_compiler/spec/releases.json): the default Python and CUDA, and the releases of
# its packages, which a recipe has that sets no version. An unknown revision stands for `newest`.
let
  facts = builtins.fromJSON (builtins.readFile ../../spec/releases.json);
in
{
  of = revision: facts.pins.${revision} or facts.pins.${facts.newest};

  # The release that a `cudaPackages_<major>` stands for.
  cudaOfMajor = { "10" = "10.2"; "11" = "11.8"; "12" = "12.8"; "13" = "13.0"; };
}
