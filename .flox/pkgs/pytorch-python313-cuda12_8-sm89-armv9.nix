# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Ada Lovelace (sm89: RTX 40 series, L4, L40, L40S, RTX 6000 Ada) and ARM CPUs with ARMv9-A with SVE2.

{ ... }: import ../ci-compiler/pytorch-python313-cuda12_8.nix {
  pname = "pytorch-python313-cuda12_8-sm89-armv9";
  gpuArch = "sm89";
  gpuArchSM = "8.9"; # TORCH_CUDA_ARCH_LIST takes 8.9, never sm_89.
  cpuISA = "armv9";
  system = "aarch64-linux";
  cpuFlags = [ "-march=armv9-a+sve2" ];
  description = "PyTorch for NVIDIA Ada Lovelace (sm89) and CPUs with ARMv9-A with SVE2";
  runsOn = [
    "GPU: RTX 40 series, L4, L40, L40S, RTX 6000 Ada (compute capability 8.9)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3"
  ];
}
