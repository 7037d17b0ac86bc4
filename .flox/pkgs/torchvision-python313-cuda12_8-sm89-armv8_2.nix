# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchVision 0.23.0 for NVIDIA Ada Lovelace (sm89: RTX 40 series, L4, L40, L40S, RTX 6000 Ada) and ARM CPUs with ARMv8.2-A with FP16 and dot product.

{ ... }: import ../ci-compiler/torchvision-python313-cuda12_8.nix {
  pname = "torchvision-python313-cuda12_8-sm89-armv8_2";
  gpuArch = "sm89";
  gpuArchSM = "8.9"; # TORCH_CUDA_ARCH_LIST takes 8.9, never sm_89.
  cpuISA = "armv8_2";
  system = "aarch64-linux";
  cpuFlags = [ "-march=armv8.2-a+fp16+dotprod" ];
  needs.torch = import ./pytorch-python313-cuda12_8-sm89-armv8_2.nix { };
  description = "TorchVision for NVIDIA Ada Lovelace (sm89) and CPUs with ARMv8.2-A with FP16 and dot product";
  runsOn = [
    "GPU: RTX 40 series, L4, L40, L40S, RTX 6000 Ada (compute capability 8.9)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Neoverse N1 (Graviton2, Ampere Altra), Neoverse V1 (Graviton3), Jetson Orin and later"
  ];
}
