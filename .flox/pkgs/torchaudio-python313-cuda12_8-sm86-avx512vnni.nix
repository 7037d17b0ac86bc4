# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for NVIDIA Ampere (sm86: RTX 30 series, A40, A10, A16, A2, RTX A2000 to A6000) and x86-64 CPUs with AVX-512 with VNNI.

{ ... }: import ../ci-compiler/torchaudio-python313-cuda12_8.nix {
  pname = "torchaudio-python313-cuda12_8-sm86-avx512vnni";
  gpuArch = "sm86";
  gpuArchSM = "8.6"; # TORCH_CUDA_ARCH_LIST takes 8.6, never sm_86.
  cpuISA = "avx512vnni";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" "-mavx512vnni" ];
  needs.torch = import ./pytorch-python313-cuda12_8-sm86-avx512vnni.nix { };
  description = "TorchAudio for NVIDIA Ampere (sm86) and CPUs with AVX-512 with VNNI";
  runsOn = [
    "GPU: RTX 30 series, A40, A10, A16, A2, RTX A2000 to A6000 (compute capability 8.6)"
    "CUDA 12.8, NVIDIA driver 525 or newer"
    "CPU: Intel Cascade Lake (2019), AMD Zen 4 (2022) and later"
  ];
}
