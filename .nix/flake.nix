# nix run 'github:flox-cuda/ci-compiler?dir=.nix' -- --help
{
  description = "Compiles one short spec into GitHub Actions workflows and Nix recipes for fleets of GPU packages";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { nixpkgs, ... }:
    let
      systems = [
        "aarch64-darwin"
        "aarch64-linux"
        "x86_64-darwin"
        "x86_64-linux"
      ];
      each = made: builtins.listToAttrs (map (system: { name = system; value = made system; }) systems);
      package = system: nixpkgs.legacyPackages.${system}.callPackage ./package.nix { };
      app = system: name: {
        type = "app";
        program = "${package system}/bin/${name}";
      };
    in
    {
      packages = each (system: {
        default = package system;
      });
      apps = each (system: {
        default = app system "ci-compile";
        ci-runner = app system "ci-runner";
      });
      overlays.default = final: _: {
        ci-compiler = final.callPackage ./package.nix { };
      };
    };
}
