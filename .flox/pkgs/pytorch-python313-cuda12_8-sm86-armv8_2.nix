# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Ampere (sm86: RTX 30 series, A40, A10, A16, A2, RTX A2000 to A6000) and ARM CPUs with ARMv8.2-A with FP16 and dot product.

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

  # TORCH_CUDA_ARCH_LIST takes 8.6, never sm_86.
  gpuArchSM = "8.6";

  # ARMv8.2-A with FP16 and dot product: Neoverse N1 (Graviton2, Ampere Altra), Neoverse V1 (Graviton3), Jetson Orin and later.
  cpuFlags = [ "-march=armv8.2-a+fp16+dotprod" ];
in
(pkgs.python313Packages.torch.override {
  cudaSupport = true;
  gpuTargets = [ gpuArchSM ];
}).overrideAttrs (old: {
  pname = "pytorch-python313-cuda12_8-sm86-armv8_2";

  requiredSystemFeatures = [ "big-parallel" ];

  preConfigure = (old.preConfigure or "") + ''
    export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
    export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"
    export MAX_JOBS=32
    # The lower of both numbers counts: nixpkgs' hooks read NIX_BUILD_CORES, setup.py reads MAX_JOBS.
    : $((NIX_BUILD_CORES = MAX_JOBS = NIX_BUILD_CORES < MAX_JOBS ? NIX_BUILD_CORES : MAX_JOBS))
  '';

  passthru = (old.passthru or { }) // {
    gpuArch = "sm86";
    cpuISA = "armv8_2";
    blasProvider = "cublas";
    cudaCapabilities = [ gpuArchSM ];
  };

  meta = (old.meta or { }) // {
    description = "PyTorch for NVIDIA Ampere (sm86) and CPUs with ARMv8.2-A with FP16 and dot product";
    longDescription = ''
      PyTorch 2.8.0 for Python 3.13, built for one kind of hardware:
      - GPU: RTX 30 series, A40, A10, A16, A2, RTX A2000 to A6000 (compute capability 8.6)
      - CUDA 12.8, NVIDIA driver 525 or newer
      - CPU: Neoverse N1 (Graviton2, Ampere Altra), Neoverse V1 (Graviton3), Jetson Orin and later
    '';
    platforms = [ "aarch64-linux" ];
  };
})
