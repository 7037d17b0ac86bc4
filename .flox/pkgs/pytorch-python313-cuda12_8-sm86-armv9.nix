# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Ampere (sm86: RTX 30 series, A40, A10, A16, A2, RTX A2000 to A6000) and ARM CPUs with ARMv9-A with SVE2.

{ ... }: import ../ci-compiler/pytorch-python313-cuda12_8.nix {
  pname = "pytorch-python313-cuda12_8-sm86-armv9";
  gpuArch = "sm86";
  gpuArchSM = "8.6"; # TORCH_CUDA_ARCH_LIST takes 8.6, never sm_86.
  cpuISA = "armv9";
  system = "aarch64-linux";
  cpuFlags = [ "-march=armv9-a+sve2" ];
  description = "PyTorch for NVIDIA Ampere (sm86) and CPUs with ARMv9-A with SVE2";
  runsOn = [
    "GPU: RTX 30 series, A40, A10, A16, A2, RTX A2000 to A6000 (compute capability 8.6)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3"
  ];
}
