"""A folder of Nix files that gives the fleet's builds to users of plain Nix: an overlay, a flake and a NixOS module."""
