# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for NVIDIA Ada Lovelace (sm89: RTX 40 series, L4, L40, L40S, RTX 6000 Ada) and x86-64 CPUs with AVX-512.

{ ... }: import ../ci-compiler/torchaudio-python313-cuda12_8.nix {
  pname = "torchaudio-python313-cuda12_8-sm89-avx512";
  gpuArch = "sm89";
  gpuArchSM = "8.9"; # TORCH_CUDA_ARCH_LIST takes 8.9, never sm_89.
  cpuISA = "avx512";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" ];
  needs.torch = import ./pytorch-python313-cuda12_8-sm89-avx512.nix { };
  description = "TorchAudio for NVIDIA Ada Lovelace (sm89) and CPUs with AVX-512";
  runsOn = [
    "GPU: RTX 40 series, L4, L40, L40S, RTX 6000 Ada (compute capability 8.9)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Intel Skylake-X or Skylake-SP (2017), AMD Zen 4 (2022) and later"
  ];
}
