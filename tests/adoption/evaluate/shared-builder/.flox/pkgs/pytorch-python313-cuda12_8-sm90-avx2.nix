# PyTorch for SM90 with AVX2
{ pkgs }:
(import ./lib { inherit pkgs; }).torch { gpu = "9.0"; isa = "avx2"; }
