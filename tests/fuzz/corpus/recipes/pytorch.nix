# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.10.0 for NVIDIA Hopper (sm90: H100, H200, H20, GH200) and ARM CPUs with ARMv8.2-A with FP16 and dot product.

{ ... }:

let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  };

  pkgs = import nixpkgs {
    system = "aarch64-linux";
    config = {
      allowUnfree = true;
      cudaSupport = true;
      allowBroken = true;
    };
    overlays = [
      # CUDA 13.0 in place of nixpkgs' default.
      (final: prev: { cudaPackages = final.cudaPackages_13; })
      # MAGMA reads clockRate, which CUDA 13.0 took out of cudaDeviceProp.
      (final: prev: {
        magma = prev.magma.overrideAttrs (old: {
          patches = (old.patches or [ ]) ++ [
            (final.fetchpatch {
              name = "cuda-13.0-clockrate-fix.patch";
              url = "https://github.com/icl-utk-edu/magma/commit/235aefb7b064954fce09d035c69907ba8a87cbcd.patch";
              hash = "sha256-i9InbxD5HtfonB/GyF9nQhFmok3jZ73RxGcIciGBGvU=";
            })
          ];
        });
      })
      # PyTorch 2.10.0 in place of nixpkgs' own, whose patches are for another.
      (final: prev: {
        pythonPackagesExtensions = prev.pythonPackagesExtensions ++ [
          (pfinal: pprev: {
            torch = pprev.torch.overrideAttrs (old: rec {
              version = "2.10.0";
              src = final.fetchFromGitHub {
                owner = "pytorch";
                repo = "pytorch";
                tag = "v${version}";
                hash = "sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ=";
                fetchSubmodules = true;
              };
              patches = [ ];
            });
          })
        ];
      })
    ];
  };

  inherit (pkgs) lib;

  # TORCH_CUDA_ARCH_LIST takes 9.0, never sm_90.
  gpuArchSM = "9.0";

  # ARMv8.2-A with FP16 and dot product: Neoverse N1 (Graviton2, Ampere Altra), Neoverse V1 (Graviton3), Jetson Orin and later.
  cpuFlags = [ "-march=armv8.2-a+fp16+dotprod" ];
in
(pkgs.python313Packages.torch.override {
  cudaSupport = true;
  gpuTargets = [ gpuArchSM ];
}).overrideAttrs (old: {
  pname = "pytorch210-python313-cuda13_0-sm90-armv8_2";

  ninjaFlags = [ "-j32" ];

  requiredSystemFeatures = [ "big-parallel" ];

  cmakeFlags = (old.cmakeFlags or [ ]) ++ [
    "-DTORCH_BUILD_VERSION=2.10.0"
    "-DCUDA_VERSION=13.0"
    "-DCMAKE_CUDA_FLAGS=-I/build/cccl-compat"
  ];

  postPatch = (old.postPatch or "") + ''
    # PyTorch would ask git for its version, and there is none.
    echo "2.10.0" > version.txt
    # nixpkgs deletes PyTorch's FindCUDAToolkit.cmake and this PyTorch wants one: it gets CMake's own.
    cat > cmake/Modules/FindCUDAToolkit.cmake <<'CMAKE'
    if(NOT CI_COMPILER_FOUND_CUDA_TOOLKIT)
      set(CI_COMPILER_FOUND_CUDA_TOOLKIT TRUE)
      include(''${CMAKE_ROOT}/Modules/FindCUDAToolkit.cmake)
    endif()
    CMAKE
  '';

  preConfigure = (old.preConfigure or "") + ''
    export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
    export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"
    export MAX_JOBS=32
    # PyTorch would ask git for its version, and there is none.
    export PYTORCH_BUILD_VERSION=2.10.0
    # CUTLASS looks for CCCL's headers below cccl/, where CUDA 13.0 has them and nixpkgs has not.
    mkdir -p /build/cccl-compat/cccl
    for headers in cuda cub thrust nv; do
      ln -sfn "${lib.getDev pkgs.cudaPackages.cuda_cccl}/include/$headers" "/build/cccl-compat/cccl/$headers"
    done
    export CXXFLAGS="-I/build/cccl-compat $CXXFLAGS"
    export CFLAGS="-I/build/cccl-compat $CFLAGS"
    export CUDAFLAGS="-I/build/cccl-compat $CUDAFLAGS"
  '';

  preBuild = (old.preBuild or "") + ''
    # nixpkgs' own preBuild sets it to every core, behind preConfigure.
    export MAX_JOBS=32
  '';

  passthru = (old.passthru or { }) // {
    gpuArch = "sm90";
    cpuISA = "armv8_2";
    blasProvider = "cublas";
  };

  meta = (old.meta or { }) // {
    description = "PyTorch for NVIDIA Hopper (sm90) and CPUs with ARMv8.2-A with FP16 and dot product";
    longDescription = ''
      PyTorch 2.10.0 for Python 3.13, built for one kind of hardware:
      - GPU: H100, H200, H20, GH200 (compute capability 9.0)
      - CUDA 13.0, NVIDIA driver 580 or newer
      - CPU: Neoverse N1 (Graviton2, Ampere Altra), Neoverse V1 (Graviton3), Jetson Orin and later
    '';
    platforms = [ "aarch64-linux" ];
  };
})
