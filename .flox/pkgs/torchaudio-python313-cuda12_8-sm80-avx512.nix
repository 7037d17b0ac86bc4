# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for NVIDIA Ampere (sm80: A100, A30) and x86-64 CPUs with AVX-512.

{ ... }:

let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz";
  };

  pkgs = import nixpkgs {
    system = "x86_64-linux";
    config = {
      allowUnfree = true;
      cudaSupport = true;
    };
    overlays = [
      # CUDA 12.8 in place of nixpkgs' default.
      (final: prev: { cudaPackages = final.cudaPackages_12_8; })
    ];
  };

  inherit (pkgs) lib;

  # The PyTorch of this very cell: the derivation that its own recipe builds.
  torch = import ./pytorch-python313-cuda12_8-sm80-avx512.nix { };

  # TORCH_CUDA_ARCH_LIST takes 8.0, never sm_80.
  gpuArchSM = "8.0";

  # AVX-512: Intel Skylake-X or Skylake-SP (2017), AMD Zen 4 (2022) and later.
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" ];
in
(pkgs.python313Packages.torchaudio.override { inherit torch; }).overrideAttrs (old: {
  pname = "torchaudio-python313-cuda12_8-sm80-avx512";

  requiredSystemFeatures = [ "big-parallel" ];

  propagatedBuildInputs = (old.propagatedBuildInputs or [ ]) ++ [ torch.out ];

  preConfigure = (old.preConfigure or "") + ''
    export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
    export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"
    export MAX_JOBS=32
    # The lower of both numbers counts: nixpkgs' hooks read NIX_BUILD_CORES, setup.py reads MAX_JOBS.
    : $((NIX_BUILD_CORES = MAX_JOBS = NIX_BUILD_CORES < MAX_JOBS ? NIX_BUILD_CORES : MAX_JOBS))
    # Its own CUDA kernels, for the same GPU as torch's.
    export TORCH_CUDA_ARCH_LIST="${gpuArchSM}"
    export FORCE_CUDA=1
  '';

  passthru = (old.passthru or { }) // {
    gpuArch = "sm80";
    cpuISA = "avx512";
    blasProvider = "cublas";
  };

  meta = (old.meta or { }) // {
    description = "TorchAudio for NVIDIA Ampere (sm80) and CPUs with AVX-512";
    longDescription = ''
      TorchAudio 2.8.0 for Python 3.13, built for one kind of hardware:
      - GPU: A100, A30 (compute capability 8.0)
      - CUDA 12.8, NVIDIA driver 525 or newer
      - CPU: Intel Skylake-X or Skylake-SP (2017), AMD Zen 4 (2022) and later
    '';
    platforms = [ "x86_64-linux" ];
  };
})
