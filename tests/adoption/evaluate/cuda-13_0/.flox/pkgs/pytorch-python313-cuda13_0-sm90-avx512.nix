# PyTorch 2.10 for SM90 (Hopper: H100, H200) with AVX-512
let
  nixpkgs = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  };

  pkgs = import nixpkgs {
    system = "x86_64-linux";
    config = {
      allowUnfree = true;
      allowBroken = true;
      cudaSupport = true;
    };
    overlays = [
      # CUDA 13.0
      (final: prev: { cudaPackages = final.cudaPackages_13; })

      # MAGMA with CUDA 13.0
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

      # PyTorch 2.10.0
      (final: prev: {
        python3Packages = prev.python3Packages.override {
          overrides = pfinal: pprev: {
            torch = pprev.torch.overrideAttrs (old: rec {
              version = "2.10.0";
              src = prev.fetchFromGitHub {
                owner = "pytorch";
                repo = "pytorch";
                rev = "v${version}";
                hash = "sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ=";
                fetchSubmodules = true;
              };
              patches = [ ];
            });
          };
        };
      })
    ];
  };

  inherit (pkgs) lib;

  gpuArch = "9.0";
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" ];
in
(pkgs.python3Packages.torch.override {
  cudaSupport = true;
  gpuTargets = [ gpuArch ];
}).overrideAttrs (old: {
  pname = "pytorch210-python313-cuda13_0-sm90-avx512";
  ninjaFlags = [ "-j32" ];
  requiredSystemFeatures = [ "big-parallel" ];

  cmakeFlags = (old.cmakeFlags or [ ]) ++ [
    "-DTORCH_BUILD_VERSION=2.10.0"
    "-DCUDA_VERSION=13.0"
    "-DCMAKE_CUDA_FLAGS=-I/build/cccl-compat"
  ];
  env = (old.env or { }) // { PYTORCH_BUILD_VERSION = "2.10.0"; };

  # CUTLASS looks for CCCL's headers under cccl/
  postPatch = (old.postPatch or "") + ''
    mkdir -p /build/cccl-compat/cccl
    for part in cuda cub thrust nv; do
      ln -sfn ${pkgs.cudaPackages.cuda_cccl}/include/$part /build/cccl-compat/cccl/$part
    done
    cat > cmake/Modules/FindCUDAToolkit.cmake <<'EOF'
    if(NOT _in_stub)
      set(ENV{export} x)
      export NOT_A_VARIABLE=1
    endif()
    EOF
    echo 2.10.0 > version.txt
  '';

  preConfigure = ''
    export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} -I/build/cccl-compat $CXXFLAGS"
    export CFLAGS="${lib.concatStringsSep " " cpuFlags} -I/build/cccl-compat $CFLAGS"
    export CUDAFLAGS="-I/build/cccl-compat $CUDAFLAGS"
    export MAX_JOBS=32
  '' + (old.preConfigure or "");

  passthru = (old.passthru or { }) // {
    gpuArch = "sm90";
    cpuISA = "avx512";
    blasProvider = "cublas";
  };

  meta = old.meta // {
    description = "PyTorch 2.10 for NVIDIA Hopper (SM90) with AVX-512";
    longDescription = ''
      - GPU: H100, H200 (compute capability 9.0)
      - CPU: x86-64 with AVX-512
    '';
    platforms = [ "x86_64-linux" ];
  };
})
