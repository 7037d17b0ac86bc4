# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for ARM CPUs with ARMv8.2-A with FP16 and dot product.

{ ... }: import ../ci-compiler/torchaudio-python313-cpu.nix {
  pname = "torchaudio-python313-cpu-armv8_2";
  cpuISA = "armv8_2";
  system = "aarch64-linux";
  cpuFlags = [ "-march=armv8.2-a+fp16+dotprod" ];
  needs.torch = import ./pytorch-python313-cpu-armv8_2.nix { };
  description = "TorchAudio for CPUs with ARMv8.2-A with FP16 and dot product";
  runsOn = [
    "CPU: Neoverse N1 (Graviton2, Ampere Altra), Neoverse V1 (Graviton3), Jetson Orin and later"
  ];
}
