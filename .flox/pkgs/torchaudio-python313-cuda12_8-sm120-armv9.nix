# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for NVIDIA Blackwell (sm120: RTX 50 series, RTX PRO Blackwell) and ARM CPUs with ARMv9-A with SVE2.

{ ... }:

let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz";
  };

  pkgs = import nixpkgs {
    system = "aarch64-linux";
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
  torch = import ./pytorch-python313-cuda12_8-sm120-armv9.nix { };

  # TORCH_CUDA_ARCH_LIST takes 12.0, never sm_120.
  gpuArchSM = "12.0";

  # ARMv9-A with SVE2: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3.
  cpuFlags = [ "-march=armv9-a+sve2" ];
in
(pkgs.python313Packages.torchaudio.override { inherit torch; }).overrideAttrs (old: {
  pname = "torchaudio-python313-cuda12_8-sm120-armv9";

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
    gpuArch = "sm120";
    cpuISA = "armv9";
    blasProvider = "cublas";
  };

  meta = (old.meta or { }) // {
    description = "TorchAudio for NVIDIA Blackwell (sm120) and CPUs with ARMv9-A with SVE2";
    longDescription = ''
      TorchAudio 2.8.0 for Python 3.13, built for one kind of hardware:
      - GPU: RTX 50 series, RTX PRO Blackwell (compute capability 12.0)
      - CUDA 12.8, NVIDIA driver 570 or newer
      - CPU: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3
    '';
    platforms = [ "aarch64-linux" ];
  };
})
