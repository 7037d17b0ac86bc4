# Arguments: pkgs/development/python-modules/flash-attn/default.nix, nixpkgs 30f6c6982ed66ca06379351f8f5322e9bce0794c.
{
  lib, buildPythonPackage, fetchFromGitHub, einops, ninja, setuptools, symlinkJoin, torch,
}:
buildPythonPackage {
  pname = "flash-attention";
  version = "2.8.2";
  env = lib.optionalAttrs torch.cudaSupport {
    TORCH_CUDA_ARCH_LIST = lib.concatStringsSep ";" torch.cudaCapabilities;
  };
  preConfigure = ''
    export MAX_JOBS="$NIX_BUILD_CORES"
  '';
  dependencies = [ einops torch ];
}
