# Arguments: pkgs/by-name/ll/llama-cpp/package.nix after NixOS/nixpkgs pull request 435263, which added rocmGpuTargets.
{
  lib, autoAddDriverRunpath, cmake, fetchFromGitHub, nix-update-script, stdenv, config,
  cudaSupport ? config.cudaSupport, cudaPackages ? { }, rocmSupport ? config.rocmSupport, rocmPackages ? { },
  rocmGpuTargets ? rocmPackages.clr.localGpuTargets or rocmPackages.clr.gpuTargets, openclSupport ? false, clblast,
  blasSupport ? !rocmSupport, blas, pkg-config, metalSupport ? false, vulkanSupport ? false, rpcSupport ? false, curl,
  llama-cpp ? null, shaderc, vulkan-headers, vulkan-loader, ninja,
}:
stdenv.mkDerivation {
  pname = "llama-cpp";
  version = "7268";
  buildInputs = lib.optionals rocmSupport [ rocmPackages.clr rocmPackages.rocblas ];
  cmakeFlags = lib.optionals rocmSupport [
    (lib.cmakeFeature "CMAKE_HIP_ARCHITECTURES" (lib.concatStringsSep ";" rocmGpuTargets))
  ];
}
