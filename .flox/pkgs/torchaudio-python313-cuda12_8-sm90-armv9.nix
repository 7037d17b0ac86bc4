# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for NVIDIA Hopper (sm90: H100, H200, H20, GH200) and ARM CPUs with ARMv9-A with SVE2.

{ ... }: import ../ci-compiler/torchaudio-python313-cuda12_8.nix {
  pname = "torchaudio-python313-cuda12_8-sm90-armv9";
  gpuArch = "sm90";
  gpuArchSM = "9.0"; # TORCH_CUDA_ARCH_LIST takes 9.0, never sm_90.
  cpuISA = "armv9";
  system = "aarch64-linux";
  cpuFlags = [ "-march=armv9-a+sve2" ];
  needs.torch = import ./pytorch-python313-cuda12_8-sm90-armv9.nix { };
  description = "TorchAudio for NVIDIA Hopper (sm90) and CPUs with ARMv9-A with SVE2";
  runsOn = [
    "GPU: H100, H200, H20, GH200 (compute capability 9.0)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Neoverse V2 (NVIDIA Grace, Graviton4), GB10, Thor and later; not Graviton3"
  ];
}
