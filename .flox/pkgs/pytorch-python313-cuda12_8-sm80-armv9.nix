# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Ampere (sm80: A100, A30) and ARM CPUs with ARMv9-A with SVE2.

{ ... }: import ../ci-compiler/pytorch-python313-cuda12_8.nix {
  pname = "pytorch-python313-cuda12_8-sm80-armv9";
  gpuArch = "sm80";
  gpuArchSM = "8.0"; # TORCH_CUDA_ARCH_LIST takes 8.0, never sm_80.
  cpuISA = "armv9";
  system = "aarch64-linux";
  cpuFlags = [ "-march=armv9-a+sve2" ];
  description = "PyTorch for NVIDIA Ampere (sm80) and CPUs with ARMv9-A with SVE2";
  runsOn = [
    "GPU: A100, A30 (compute capability 8.0)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3"
  ];
}
