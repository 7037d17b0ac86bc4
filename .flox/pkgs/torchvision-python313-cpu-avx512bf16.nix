# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchVision 0.23.0 for x86-64 CPUs with AVX-512 with BF16.

{ ... }: import ../ci-compiler/torchvision-python313-cpu.nix {
  pname = "torchvision-python313-cpu-avx512bf16";
  cpuISA = "avx512bf16";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" "-mavx512bf16" ];
  needs.torch = import ./pytorch-python313-cpu-avx512bf16.nix { };
  description = "TorchVision for CPUs with AVX-512 with BF16";
  runsOn = [
    "CPU: Intel Cooper Lake (2020) or Sapphire Rapids (2023), AMD Zen 4 (2022) and later; not Intel Ice Lake"
  ];
}
