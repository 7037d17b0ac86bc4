# Arguments: pkgs/by-name/wh/whisper-cpp/package.nix, version 1.8.1, in nixpkgs 9d4602f5feb7effa7f0c1a5bfe3f52674eee5037.
{
  lib, stdenv, cmake, git, ninja, fetchFromGitHub, SDL2, wget, which, autoAddDriverRunpath, makeWrapper,
  nix-update-script, metalSupport ? false, coreMLSupport ? false, config, cudaSupport ? config.cudaSupport,
  cudaPackages ? { }, rocmSupport ? config.rocmSupport, rocmPackages ? { },
  rocmGpuTargets ? lib.concatStringsSep ";" rocmPackages.clr.gpuTargets, vulkanSupport ? false, shaderc, vulkan-headers,
  vulkan-loader, withSDL ? true,
}:
stdenv.mkDerivation {
  pname = "whisper-cpp";
  version = "1.8.1";
  buildInputs = lib.optionals vulkanSupport [ shaderc vulkan-headers vulkan-loader ];
  cmakeFlags = [ (lib.cmakeBool "GGML_VULKAN" vulkanSupport) ];
}
