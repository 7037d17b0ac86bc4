# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchVision 0.23.0 for NVIDIA Blackwell (sm100: B100, B200, GB200) and x86-64 CPUs with AVX-512.

{ ... }: import ../ci-compiler/torchvision-python313-cuda12_8.nix {
  pname = "torchvision-python313-cuda12_8-sm100-avx512";
  gpuArch = "sm100";
  gpuArchSM = "10.0"; # TORCH_CUDA_ARCH_LIST takes 10.0, never sm_100.
  cpuISA = "avx512";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" ];
  needs.torch = import ./pytorch-python313-cuda12_8-sm100-avx512.nix { };
  description = "TorchVision for NVIDIA Blackwell (sm100) and CPUs with AVX-512";
  runsOn = [
    "GPU: B100, B200, GB200 (compute capability 10.0)"
    "CUDA 12.8, NVIDIA driver 570 or newer"
    "CPU: Intel Skylake-X or Skylake-SP (2017), AMD Zen 4 (2022) and later"
  ];
}
