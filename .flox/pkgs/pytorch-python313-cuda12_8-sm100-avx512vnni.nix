# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# PyTorch 2.8.0 for NVIDIA Blackwell (sm100: B100, B200, GB200) and x86-64 CPUs with AVX-512 with VNNI.

{ ... }: import ../ci-compiler/pytorch-python313-cuda12_8.nix {
  pname = "pytorch-python313-cuda12_8-sm100-avx512vnni";
  gpuArch = "sm100";
  gpuArchSM = "10.0"; # TORCH_CUDA_ARCH_LIST takes 10.0, never sm_100.
  cpuISA = "avx512vnni";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" "-mavx512vnni" ];
  description = "PyTorch for NVIDIA Blackwell (sm100) and CPUs with AVX-512 with VNNI";
  runsOn = [
    "GPU: B100, B200, GB200 (compute capability 10.0)"
    "CUDA 12.8, NVIDIA driver 570 or newer"
    "CPU: Intel Cascade Lake (2019), AMD Zen 4 (2022) and later"
  ];
}
