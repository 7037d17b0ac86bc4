# A miniature of nixpkgs: what compiled recipes use of it, made in the same way, so that Nix says the same of mistakes.
{ system ? "x86_64-linux", config ? { }, overlays ? [ ], ... }:
let
  lib = import ./lib.nix;

  # Each `override` calls the package's function again, which refuses arguments that it does not take.
  makeOverridable = function: arguments:
    let result = function arguments;
    in result // {
      override = new: makeOverridable function (arguments // new);
      overrideAttrs = layer: makeOverridable (given: (function given).overrideAttrs layer) arguments;
    };

  text = value: if builtins.isList value then map text value else if builtins.isAttrs value then value.outPath else value;
  mkDerivation = attributes:
    let
      drv = derivation (builtins.mapAttrs (_: text) (removeAttrs attributes [ "meta" "passthru" ]) // {
        name = "${attributes.pname}-${attributes.version}";
        builder = "/bin/sh";
        inherit system;
      });
    in
    drv // (attributes.passthru or { }) // {
      inherit (attributes) pname version;
      meta = attributes.meta or { };
      overrideAttrs = layer: mkDerivation (attributes // layer attributes);
    };

  package = path: extra: makeOverridable (import path) ({ inherit lib mkDerivation config; } // extra);
  pkgs = builtins.foldl' (below: overlay: below // overlay pkgs below) {
    inherit lib;
    cudaPackages = pkgs.cudaPackages_12_8;
    cudaPackages_12_8.cuda_cuobjdump = mkDerivation { pname = "cuda_cuobjdump"; version = "12.8"; };
    python313Packages = rec {
      torch = package ./torch.nix { };
      torchvision = package ./torchvision.nix { inherit torch; };
    };
    callPackage = function: extra: function (builtins.intersectAttrs (builtins.functionArgs function) pkgs // extra);
  } overlays;
in
pkgs
