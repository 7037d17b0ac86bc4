# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for ARM CPUs with ARMv9-A with SVE2.

{ ... }: import ../ci-compiler/torchaudio-python313-cpu.nix {
  pname = "torchaudio-python313-cpu-armv9";
  cpuISA = "armv9";
  system = "aarch64-linux";
  cpuFlags = [ "-march=armv9-a+sve2" ];
  needs.torch = import ./pytorch-python313-cpu-armv9.nix { };
  description = "TorchAudio for CPUs with ARMv9-A with SVE2";
  runsOn = [
    "CPU: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3"
  ];
}
