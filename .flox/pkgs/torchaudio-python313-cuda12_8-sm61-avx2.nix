# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for NVIDIA Pascal (sm61: GTX 1050 to 1080 Ti, Titan Xp, Tesla P40 and P4) and x86-64 CPUs with AVX2.

{ ... }: import ../ci-compiler/torchaudio-python313-cuda12_8-capability.nix {
  pname = "torchaudio-python313-cuda12_8-sm61-avx2";
  gpuArch = "sm61";
  gpuArchSM = "6.1"; # TORCH_CUDA_ARCH_LIST takes 6.1, never sm_61.
  cpuISA = "avx2";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ];
  needs.torch = import ./pytorch-python313-cuda12_8-sm61-avx2.nix { };
  description = "TorchAudio for NVIDIA Pascal (sm61) and CPUs with AVX2";
  runsOn = [
    "GPU: GTX 1050 to 1080 Ti, Titan Xp, Tesla P40 and P4 (compute capability 6.1)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Intel Haswell (2013), AMD Excavator (2015) or Zen (2017) and later"
    "Without cuDNN: convolutions and recurrent layers run on PyTorch's own kernels, which are slower"
  ];
}
