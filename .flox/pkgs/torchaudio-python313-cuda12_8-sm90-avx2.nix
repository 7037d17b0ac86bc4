# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for NVIDIA Hopper (sm90: H100, H200, H20, GH200) and x86-64 CPUs with AVX2.

{ ... }: import ../ci-compiler/torchaudio-python313-cuda12_8.nix {
  pname = "torchaudio-python313-cuda12_8-sm90-avx2";
  gpuArch = "sm90";
  gpuArchSM = "9.0"; # TORCH_CUDA_ARCH_LIST takes 9.0, never sm_90.
  cpuISA = "avx2";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ];
  needs.torch = import ./pytorch-python313-cuda12_8-sm90-avx2.nix { };
  description = "TorchAudio for NVIDIA Hopper (sm90) and CPUs with AVX2";
  runsOn = [
    "GPU: H100, H200, H20, GH200 (compute capability 9.0)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Intel Haswell (2013), AMD Excavator (2015) or Zen (2017) and later"
  ];
}
