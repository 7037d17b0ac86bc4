# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Blackwell (sm100: B100, B200, GB200) and ARM CPUs with ARMv9-A with SVE2.

{ ... }: import ../ci-compiler/pytorch-python313-cuda12_8.nix {
  pname = "pytorch-python313-cuda12_8-sm100-armv9";
  gpuArch = "sm100";
  gpuArchSM = "10.0"; # TORCH_CUDA_ARCH_LIST takes 10.0, never sm_100.
  cpuISA = "armv9";
  system = "aarch64-linux";
  cpuFlags = [ "-march=armv9-a+sve2" ];
  description = "PyTorch for NVIDIA Blackwell (sm100) and CPUs with ARMv9-A with SVE2";
  runsOn = [
    "GPU: B100, B200, GB200 (compute capability 10.0)"
    "CUDA 12.8, NVIDIA driver 570 or newer"
    "CPU: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3"
  ];
}
