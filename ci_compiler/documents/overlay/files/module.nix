# @heading@
# A NixOS module: fetches the fleet's builds from its binary cache, and installs those of one kind of hardware.
{ config, lib, pkgs, ... }:

let
  cfg = config.fleetPackages;
  fleet = import ./.;
  text = description: example: lib.mkOption { type = lib.types.str; inherit description example; };
  narrowing = description: lib.mkOption { type = lib.types.nullOr lib.types.str; default = null; inherit description; };
in
{
  options.fleetPackages = {
    enable = lib.mkEnableOption "the fleet's builds and its binary cache";
    gpu = text "The GPU's architecture, or cpu." "@gpu@";
    isa = text "The CPU's instruction set." "@isa@";
    toolkit = narrowing "The toolkit of the GPU; null for the newest.";
    python = narrowing "The Python version; null for the newest.";
    branch = narrowing "The branch of the fleet; null for the newest that fits.";@options@
    install = lib.mkOption {
      type = lib.types.bool;
      default = true;
      description = "Whether every user gets a python3 with the packages.";
    };
  };

  config = lib.mkIf cfg.enable {
    nixpkgs.overlays = [ (import ./overlay.nix { inherit (cfg) gpu isa toolkit python branch@further@; }) ];
    environment.systemPackages = lib.optional cfg.install pkgs.fleetPackages.environment;
    nix.settings = lib.mkIf (fleet.cache != null) {
      substituters = [ fleet.cache.url ];
      trusted-public-keys = fleet.cache.publicKeys;
    };
  };
}
