# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for x86-64 CPUs with AVX2.

{ ... }: import ../ci-compiler/torchaudio-python313-cpu.nix {
  pname = "torchaudio-python313-cpu-avx2";
  cpuISA = "avx2";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ];
  needs.torch = import ./pytorch-python313-cpu-avx2.nix { };
  description = "TorchAudio for CPUs with AVX2";
  runsOn = [
    "CPU: Intel Haswell (2013), AMD Excavator (2015) or Zen (2017) and later"
  ];
}
