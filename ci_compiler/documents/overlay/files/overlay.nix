# @heading@
# In a nixpkgs of your own:
#
#   import nixpkgs { overlays = [ (import ./overlay.nix { gpu = "@gpu@"; isa = "@isa@"; }) ]; }
#
# `fleetPackages` has the packages of that GPU and instruction set (see default.nix); with `{ }`, all `variants`.
# It changes no other package.
choice: final: prev:
let fleet = import ./.;
in {
  fleetPackages = fleet // (
    if choice == { } then { }
    else fleet.choose ({ inherit (prev.stdenv.hostPlatform) system; } // choice)
  );
}
