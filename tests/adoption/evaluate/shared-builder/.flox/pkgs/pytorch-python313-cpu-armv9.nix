# PyTorch for CPUs with ARMv9
{ callPackage }:
callPackage ./lib/torch.nix { } { isa = "armv9"; }
