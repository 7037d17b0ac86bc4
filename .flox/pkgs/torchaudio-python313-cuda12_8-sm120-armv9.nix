# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for NVIDIA Blackwell (sm120: RTX 50 series, RTX PRO Blackwell) and ARM CPUs with ARMv9-A with SVE2.

{ ... }: import ../ci-compiler/torchaudio-python313-cuda12_8.nix {
  pname = "torchaudio-python313-cuda12_8-sm120-armv9";
  gpuArch = "sm120";
  gpuArchSM = "12.0"; # TORCH_CUDA_ARCH_LIST takes 12.0, never sm_120.
  cpuISA = "armv9";
  system = "aarch64-linux";
  cpuFlags = [ "-march=armv9-a+sve2" ];
  needs.torch = import ./pytorch-python313-cuda12_8-sm120-armv9.nix { };
  description = "TorchAudio for NVIDIA Blackwell (sm120) and CPUs with ARMv9-A with SVE2";
  runsOn = [
    "GPU: RTX 50 series, RTX PRO Blackwell (compute capability 12.0)"
    "CUDA 12.8, NVIDIA driver 570 or newer"
    "CPU: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3"
  ];
}
