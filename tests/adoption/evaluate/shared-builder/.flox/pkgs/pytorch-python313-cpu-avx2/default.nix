args@{ pkgs, ... }: import ../lib/torch.nix { inherit (args) pkgs; } { isa = "avx2"; }
