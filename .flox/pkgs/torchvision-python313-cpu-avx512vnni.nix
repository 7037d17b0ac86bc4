# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# TorchVision 0.23.0 for x86-64 CPUs with AVX-512 with VNNI.

{ ... }: import ../ci-compiler/torchvision-python313-cpu.nix {
  pname = "torchvision-python313-cpu-avx512vnni";
  cpuISA = "avx512vnni";
  system = "x86_64-linux";
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" "-mavx512vnni" ];
  needs.torch = import ./pytorch-python313-cpu-avx512vnni.nix { };
  description = "TorchVision for CPUs with AVX-512 with VNNI";
  runsOn = [
    "CPU: Intel Cascade Lake (2019), AMD Zen 4 (2022) and later"
  ];
}
