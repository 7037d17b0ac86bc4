# Arguments: pkgs/by-name/ll/llama-cpp/package.nix, version 5760, in nixpkgs 389986cd4a245ae6dddf6d73ccea1692fee8c579.
{
  lib, autoAddDriverRunpath, cmake, fetchFromGitHub, nix-update-script, stdenv, config,
  cudaSupport ? config.cudaSupport, cudaPackages ? { }, rocmSupport ? config.rocmSupport, rocmPackages ? { },
  openclSupport ? false, clblast, blasSupport ? !cudaSupport && !vulkanSupport, blas, pkg-config, metalSupport ? false,
  vulkanSupport ? false, rpcSupport ? false, curl, shaderc, vulkan-headers, vulkan-loader, ninja, git,
}:
stdenv.mkDerivation {
  pname = "llama-cpp";
  version = "5760";
  inherit rpcSupport blasSupport;
  buildInputs = lib.optionals cudaSupport [ cudaPackages.nccl ]
    ++ lib.optionals vulkanSupport [ shaderc vulkan-headers vulkan-loader ];
  cmakeFlags = [ (lib.cmakeBool "GGML_VULKAN" vulkanSupport) ] ++ lib.optionals cudaSupport [
    (lib.cmakeFeature "CMAKE_CUDA_ARCHITECTURES" cudaPackages.flags.cmakeCudaArchitecturesString)
  ];
}
