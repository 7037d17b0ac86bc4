# TorchVision 0.25 for SM90 with AVX-512, on the torch of another repository
let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
    sha256 = "1111111111111111111111111111111111111111111111111111";
  };
  torchRecipes = builtins.fetchTarball {
    url = "https://github.com/my-org/build-pytorch/archive/0123456789abcdef0123456789abcdef01234567.tar.gz";
    sha256 = "0000000000000000000000000000000000000000000000000000";
  };
  torch = import "${torchRecipes}/.flox/pkgs/pytorch-python313-cuda13_0-sm90-avx512.nix";
  pkgs = import nixpkgs { system = "x86_64-linux"; config = { allowUnfree = true; cudaSupport = true; }; };
in
(pkgs.python313Packages.torchvision.override { inherit torch; }).overrideAttrs (old: {
  pname = "torchvision-python313-cuda13_0-sm90-avx512";
  propagatedBuildInputs = [ torch pkgs.python313Packages.pillow ];
  meta = old.meta // { platforms = [ "x86_64-linux" ]; };
})
