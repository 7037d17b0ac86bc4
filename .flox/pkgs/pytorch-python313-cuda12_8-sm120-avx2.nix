# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Blackwell (sm120: RTX 50 series, RTX PRO Blackwell) and x86-64 CPUs with AVX2.

{ ... }: import ../ci-compiler/pytorch-python313-cuda12_8.nix {
  pname = "pytorch-python313-cuda12_8-sm120-avx2";
  gpuArch = "sm120";
  gpuArchSM = "12.0"; # TORCH_CUDA_ARCH_LIST takes 12.0, never sm_120.
  cpuISA = "avx2";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ];
  description = "PyTorch for NVIDIA Blackwell (sm120) and CPUs with AVX2";
  runsOn = [
    "GPU: RTX 50 series, RTX PRO Blackwell (compute capability 12.0)"
    "CUDA 12.8, NVIDIA driver 570 or newer"
    "CPU: Intel Haswell (2013), AMD Excavator (2015) or Zen (2017) and later"
  ];
}
