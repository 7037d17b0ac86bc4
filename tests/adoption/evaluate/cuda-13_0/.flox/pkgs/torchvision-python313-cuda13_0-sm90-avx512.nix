# TorchVision 0.25 for SM90 (Hopper: H100, H200) with AVX-512
{ ... }:
let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  };
  pkgs = import nixpkgs {
    system = "x86_64-linux";
    config = { allowUnfree = true; allowBroken = true; cudaSupport = true; };
    overlays = [ (final: prev: { cudaPackages = final.cudaPackages_13; }) ];
  };
  torch = import ./pytorch-python313-cuda13_0-sm90-avx512.nix;
in
(pkgs.python313Packages.torchvision.override { inherit torch; }).overrideAttrs (old: rec {
  pname = "torchvision-python313-cuda13_0-sm90-avx512";
  version = "0.25.0";
  src = pkgs.fetchFromGitHub {
    owner = "pytorch";
    repo = "vision";
    tag = "v${version}";
    hash = "sha256-oktJHcT6T4f58pUO+HSBpbyS1ISH3zDlTsXQh6PcMy4=";
  };
  ninjaFlags = [ "-j32" ];
  requiredSystemFeatures = [ "big-parallel" ];
  patches = (old.patches or [ ]) ++ [ ../../patches/no-video.patch ];
  preConfigure = ''
    export CXXFLAGS="-mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma $CXXFLAGS"
    export CFLAGS="-mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma $CFLAGS"
    export TORCH_CUDA_ARCH_LIST="9.0"
    export FORCE_CUDA=1
    export MAX_JOBS=32
  '' + (old.preConfigure or "");
  passthru = old.passthru // { gpuArch = "sm90"; cpuISA = "avx512"; };
  meta = old.meta // {
    description = "TorchVision for NVIDIA Hopper (SM90) with AVX-512";
    platforms = [ "x86_64-linux" ];
  };
})
