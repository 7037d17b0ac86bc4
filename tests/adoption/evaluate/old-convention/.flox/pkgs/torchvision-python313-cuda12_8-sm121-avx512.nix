# TorchVision optimized for NVIDIA DGX Spark + AVX-512
# Package name: torchvision-python313-cuda12_8-sm121-avx512

{ python3Packages
, lib
, config
, cudaPackages
, addDriverRunpath
}:

let
  # GPU target: SM121 (NVIDIA DGX Spark)
  gpuArchNum = "121";        # For CMAKE_CUDA_ARCHITECTURES (just the integer)
  gpuArchSM = "sm_121";      # For TORCH_CUDA_ARCH_LIST (with sm_ prefix)

  cpuFlags = [
    "-mavx512f"    "-mavx512dq"   "-mavx512vl"   "-mavx512bw"   "-mfma"
  ];

  # TODO: Reference the actual pytorch package from build-pytorch
  customPytorch = (python3Packages.pytorch.override {
    cudaSupport = true;
    gpuTargets = [ gpuArchSM ];
  }).overrideAttrs (oldAttrs: {
    preConfigure = (oldAttrs.preConfigure or "") + ''
      export CXXFLAGS="$CXXFLAGS ${lib.concatStringsSep " " cpuFlags}"
      export CFLAGS="$CFLAGS ${lib.concatStringsSep " " cpuFlags}"

      # Limit build parallelism to prevent memory saturation
      export NIX_BUILD_CORES=32
      export MAX_JOBS=32
      export CMAKE_BUILD_PARALLEL_LEVEL=32
    '';
  });

in
  (python3Packages.torchvision.override {
    torch = customPytorch;
  }).overrideAttrs (oldAttrs: {
    pname = "torchvision-python313-cuda12_8-sm121-avx512";

    preConfigure = (oldAttrs.preConfigure or "") + ''
      export CXXFLAGS="$CXXFLAGS ${lib.concatStringsSep " " cpuFlags}"
      export CFLAGS="$CFLAGS ${lib.concatStringsSep " " cpuFlags}"

      # Limit build parallelism to prevent memory saturation
      export NIX_BUILD_CORES=32
      export MAX_JOBS=32
      export CMAKE_BUILD_PARALLEL_LEVEL=32

      echo "========================================="
      echo "TorchVision Build Configuration"
      echo "GPU Target: SM121 (NVIDIA DGX Spark)"
      echo "CXXFLAGS: $CXXFLAGS"
      echo "========================================="
    '';

    meta = oldAttrs.meta // {
      description = "TorchVision for NVIDIA DGX Spark + AVX-512";
      longDescription = ''
        Custom TorchVision build with targeted optimizations:
        - GPU: NVIDIA DGX Spark
        - Driver: NVIDIA 570+ required
      '';
      platforms = [ "x86_64-linux" "aarch64-linux" ];
    };
  })
