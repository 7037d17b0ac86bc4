# Arguments: pkgs/development/python-modules/torchaudio/default.nix, nixpkgs 005ab72f9cf5a75cdcd9ff672fb4a3b03391619f.
{
  lib, symlinkJoin, buildPythonPackage, fetchFromGitHub, cmake, pkg-config, ninja, ffmpeg_6-full, pybind11, sox, torch,
  llvmPackages, cudaSupport ? torch.cudaSupport, cudaPackages, rocmSupport ? torch.rocmSupport, rocmPackages,
  gpuTargets ? [ ],
}:
buildPythonPackage {
  pname = "torchaudio";
  version = "2.10.0";
  preConfigure = if !rocmSupport then "" else ''
    export ROCM_PATH=${rocmPackages.clr.outPath}
    export PYTORCH_ROCM_ARCH="${lib.concatStringsSep ";" (if gpuTargets != [ ] then gpuTargets else rocmPackages.clr.gpuTargets)}"
  '';
  dependencies = [ torch ];
}
