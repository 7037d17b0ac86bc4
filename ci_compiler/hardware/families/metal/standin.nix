# What nixpkgs has for Metal, as far as a recipe can tell: see ci_compiler/adoption/standin/families.nix.
_: {
  torch = _: {
    variables = _: { USE_MPS = "0"; };
  };
}
