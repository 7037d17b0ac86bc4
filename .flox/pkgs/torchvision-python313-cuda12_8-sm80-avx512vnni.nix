# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchVision 0.23.0 for NVIDIA Ampere (sm80: A100, A30) and x86-64 CPUs with AVX-512 with VNNI.

{ ... }: import ../ci-compiler/torchvision-python313-cuda12_8.nix {
  pname = "torchvision-python313-cuda12_8-sm80-avx512vnni";
  gpuArch = "sm80";
  gpuArchSM = "8.0"; # TORCH_CUDA_ARCH_LIST takes 8.0, never sm_80.
  cpuISA = "avx512vnni";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" "-mavx512vnni" ];
  needs.torch = import ./pytorch-python313-cuda12_8-sm80-avx512vnni.nix { };
  description = "TorchVision for NVIDIA Ampere (sm80) and CPUs with AVX-512 with VNNI";
  runsOn = [
    "GPU: A100, A30 (compute capability 8.0)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Intel Cascade Lake (2019), AMD Zen 4 (2022) and later"
  ];
}
