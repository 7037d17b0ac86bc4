# @heading@
{
  description = @nix-description@;@settings@

  # For the scripts of the checks alone: every recipe has a nixpkgs of its own.
  inputs.nixpkgs.url = @nixpkgs@;

  outputs = { nixpkgs, ... }:
    let
      fleet = import ./.;
      checks = system: import ./checks.nix { inherit fleet; pkgs = nixpkgs.legacyPackages.${system}; };
    in
    {
      lib = { inherit (fleet) choose; };
      overlays.default = import ./overlay.nix { };
      nixosModules.default = import ./module.nix;
      packages = fleet.newest;
      # Every branch's builds, as BRANCH.NAME.
      legacyPackages = builtins.mapAttrs (_: _: fleet.variants) fleet.newest;
      apps = builtins.mapAttrs (system: _: checks system) fleet.newest;
    };
}
