# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Blackwell (sm100: B100, B200, GB200) and ARM CPUs with ARMv8.2-A with FP16 and dot product.

{ ... }: import ../ci-compiler/pytorch-python313-cuda12_8.nix {
  pname = "pytorch-python313-cuda12_8-sm100-armv8_2";
  gpuArch = "sm100";
  gpuArchSM = "10.0"; # TORCH_CUDA_ARCH_LIST takes 10.0, never sm_100.
  cpuISA = "armv8_2";
  system = "aarch64-linux";
  cpuFlags = [ "-march=armv8.2-a+fp16+dotprod" ];
  description = "PyTorch for NVIDIA Blackwell (sm100) and CPUs with ARMv8.2-A with FP16 and dot product";
  runsOn = [
    "GPU: B100, B200, GB200 (compute capability 10.0)"
    "CUDA 12.8, NVIDIA driver 570 or newer"
    "CPU: Neoverse N1 (Graviton2, Ampere Altra), Neoverse V1 (Graviton3), Jetson Orin and later"
  ];
}
