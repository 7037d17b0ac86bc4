# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchAudio 2.8.0 for NVIDIA Blackwell (sm120: RTX 50 series, RTX PRO Blackwell) and x86-64 CPUs with AVX-512 with VNNI.

{ ... }: import ../ci-compiler/torchaudio-python313-cuda12_8.nix {
  pname = "torchaudio-python313-cuda12_8-sm120-avx512vnni";
  gpuArch = "sm120";
  gpuArchSM = "12.0"; # TORCH_CUDA_ARCH_LIST takes 12.0, never sm_120.
  cpuISA = "avx512vnni";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" "-mavx512vnni" ];
  needs.torch = import ./pytorch-python313-cuda12_8-sm120-avx512vnni.nix { };
  description = "TorchAudio for NVIDIA Blackwell (sm120) and CPUs with AVX-512 with VNNI";
  runsOn = [
    "GPU: RTX 50 series, RTX PRO Blackwell (compute capability 12.0)"
    "CUDA 12.8, NVIDIA driver 570 or newer"
    "CPU: Intel Cascade Lake (2019), AMD Zen 4 (2022) and later"
  ];
}
