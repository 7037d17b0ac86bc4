# What nixpkgs has for Vulkan, as far as a recipe can tell: see ci_compiler/adoption/standin/families.nix.
{ lib, ... }: {
  torch = _: {
    arguments = { vulkanSupport = false; };
    variables = args: lib.optionalAttrs args.vulkanSupport { USE_VULKAN = "1"; };
    extras = args: { inherit (args) vulkanSupport; };
  };

  support = { effective, ... }: effective.vulkanSupport or false;
}
