# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchVision 0.23.0 for NVIDIA Hopper (sm90: H100, H200, H20, GH200) and x86-64 CPUs with AVX-512 with BF16.

{ ... }: import ../ci-compiler/torchvision-python313-cuda12_8.nix {
  pname = "torchvision-python313-cuda12_8-sm90-avx512bf16";
  gpuArch = "sm90";
  gpuArchSM = "9.0"; # TORCH_CUDA_ARCH_LIST takes 9.0, never sm_90.
  cpuISA = "avx512bf16";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" "-mavx512bf16" ];
  needs.torch = import ./pytorch-python313-cuda12_8-sm90-avx512bf16.nix { };
  description = "TorchVision for NVIDIA Hopper (sm90) and CPUs with AVX-512 with BF16";
  runsOn = [
    "GPU: H100, H200, H20, GH200 (compute capability 9.0)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Intel Cooper Lake (2020) or Sapphire Rapids (2023), AMD Zen 4 (2022) and later; not Intel Ice Lake"
  ];
}
