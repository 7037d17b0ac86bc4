# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Blackwell (sm100: B100, B200, GB200) and ARM CPUs with ARMv9-A with SVE2.

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

  # TORCH_CUDA_ARCH_LIST takes 10.0, never sm_100.
  gpuArchSM = "10.0";

  # ARMv9-A with SVE2: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3.
  cpuFlags = [ "-march=armv9-a+sve2" ];
in
(pkgs.python313Packages.torch.override {
  cudaSupport = true;
  gpuTargets = [ gpuArchSM ];
}).overrideAttrs (old: {
  pname = "pytorch-python313-cuda12_8-sm100-armv9";

  requiredSystemFeatures = [ "big-parallel" ];

  preConfigure = (old.preConfigure or "") + ''
    export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
    export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"
    export MAX_JOBS=32
    # The lower of both numbers counts: nixpkgs' hooks read NIX_BUILD_CORES, setup.py reads MAX_JOBS.
    : $((NIX_BUILD_CORES = MAX_JOBS = NIX_BUILD_CORES < MAX_JOBS ? NIX_BUILD_CORES : MAX_JOBS))
  '';

  passthru = (old.passthru or { }) // {
    gpuArch = "sm100";
    cpuISA = "armv9";
    blasProvider = "cublas";
    cudaCapabilities = [ gpuArchSM ];
  };

  meta = (old.meta or { }) // {
    description = "PyTorch for NVIDIA Blackwell (sm100) and CPUs with ARMv9-A with SVE2";
    longDescription = ''
      PyTorch 2.8.0 for Python 3.13, built for one kind of hardware:
      - GPU: B100, B200, GB200 (compute capability 10.0)
      - CUDA 12.8, NVIDIA driver 570 or newer
      - CPU: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3
    '';
    platforms = [ "aarch64-linux" ];
  };
})
