# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for NVIDIA Hopper (sm90: H100, H200, H20, GH200) and x86-64 CPUs with AVX-512.

{ ... }: import ../ci-compiler/torchaudio-python313-cuda12_8.nix {
  pname = "torchaudio-python313-cuda12_8-sm90-avx512";
  gpuArch = "sm90";
  gpuArchSM = "9.0"; # TORCH_CUDA_ARCH_LIST takes 9.0, never sm_90.
  cpuISA = "avx512";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" ];
  needs.torch = import ./pytorch-python313-cuda12_8-sm90-avx512.nix { };
  description = "TorchAudio for NVIDIA Hopper (sm90) and CPUs with AVX-512";
  runsOn = [
    "GPU: H100, H200, H20, GH200 (compute capability 9.0)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Intel Skylake-X or Skylake-SP (2017), AMD Zen 4 (2022) and later"
  ];
}
