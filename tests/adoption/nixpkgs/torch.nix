{ lib, mkDerivation, config, cudaSupport ? config.cudaSupport or false, gpuTargets ? [ ] }:
mkDerivation {
  pname = "torch";
  version = "2.8.0";
  outputs = [ "out" "dev" ];
  preConfigure =
    if cudaSupport then ''
      export TORCH_CUDA_ARCH_LIST="${lib.concatStringsSep ";" gpuTargets}"
    '' else "";
}
