{ pkgs }: { torch = import ./torch.nix { inherit pkgs; }; }
