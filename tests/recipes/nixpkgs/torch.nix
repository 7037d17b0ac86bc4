# The arguments of nixpkgs' torch that matter here; the others are like them.
{
  lib,
  buildPythonPackage,
  config,
  cudaSupport ? config.cudaSupport,
  cudaPackages,
  rocmSupport ? config.rocmSupport,
  rocmPackages,
  gpuTargets ? [ ],
  vulkanSupport ? false,
}:
buildPythonPackage {
  pname = "torch";
  version = "2.8.0";
  outputs = [ "out" "dev" "lib" "cxxdev" ];
  inherit gpuTargets;
  env.USE_VULKAN = if vulkanSupport then "1" else "0";
  requiredSystemFeatures = [ "big-parallel" ];
  buildInputs = lib.optionals cudaSupport [ cudaPackages.nccl ] ++ lib.optionals rocmSupport [ rocmPackages.rocblas ];
  passthru = {
    inherit cudaSupport cudaPackages rocmSupport rocmPackages;
    isTorch = true;
    # Whatever gpuTargets says, as in nixpkgs.
    inherit (cudaPackages.flags) cudaCapabilities;
    blasProvider = "the derivation of nixpkgs";
    stdenv.cc = "cc";
  };
}
