# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Ampere (sm80: A100, A30) and x86-64 CPUs with AVX2.

{ ... }: import ../ci-compiler/pytorch-python313-cuda12_8.nix {
  pname = "pytorch-python313-cuda12_8-sm80-avx2";
  gpuArch = "sm80";
  gpuArchSM = "8.0"; # TORCH_CUDA_ARCH_LIST takes 8.0, never sm_80.
  cpuISA = "avx2";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ];
  description = "PyTorch for NVIDIA Ampere (sm80) and CPUs with AVX2";
  runsOn = [
    "GPU: A100, A30 (compute capability 8.0)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Intel Haswell (2013), AMD Excavator (2015) or Zen (2017) and later"
  ];
}
