# What nixpkgs has for ROCm, as far as a recipe can tell: see ci_compiler/adoption/standin/families.nix.
_: {
  config = { rocmSupport = false; };

  torch = { context, ... }: {
    arguments = { rocmSupport = context.config.rocmSupport or false; };
    extras = args: { inherit (args) rocmSupport; };
  };
}
