# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Ampere (sm86: RTX 30 series, A40, A10, A16, A2, RTX A2000 to A6000) and ARM CPUs with ARMv8.2-A with FP16 and dot product.

{ ... }: import ../ci-compiler/pytorch-python313-cuda12_8.nix {
  pname = "pytorch-python313-cuda12_8-sm86-armv8_2";
  gpuArch = "sm86";
  gpuArchSM = "8.6"; # TORCH_CUDA_ARCH_LIST takes 8.6, never sm_86.
  cpuISA = "armv8_2";
  system = "aarch64-linux";
  cpuFlags = [ "-march=armv8.2-a+fp16+dotprod" ];
  description = "PyTorch for NVIDIA Ampere (sm86) and CPUs with ARMv8.2-A with FP16 and dot product";
  runsOn = [
    "GPU: RTX 30 series, A40, A10, A16, A2, RTX A2000 to A6000 (compute capability 8.6)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Neoverse N1 (Graviton2, Ampere Altra), Neoverse V1 (Graviton3), Jetson Orin and later"
  ];
}
