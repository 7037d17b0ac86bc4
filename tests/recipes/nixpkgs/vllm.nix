# Arguments: pkgs/development/python-modules/vllm/default.nix, nixpkgs 00fa62a8a25a98990e2389bd8ab7d0b91e3cb352.
{
  lib, stdenv, python, buildPythonPackage, fetchFromGitHub, fetchpatch, symlinkJoin, autoAddDriverRunpath, which, cmake,
  grpcio-tools, jinja2, ninja, packaging, setuptools, setuptools-scm, onednn, numactl, llvmPackages, aioprometheus,
  amd-aiter, amd-quark, amdsmi, anthropic, bitsandbytes, blake3, cachetools, cbor2, compressed-tensors, datasets, depyf,
  einops, fastapi, gguf, grpcio, grpcio-reflection, ijson, importlib-metadata, kaldi-native-fbank, llguidance,
  lm-format-enforcer, mcp, mistral-common, model-hosting-container-standards, msgspec, numba, numpy, openai,
  openai-harmony, opencv-python-headless, opentelemetry-api, opentelemetry-exporter-otlp, opentelemetry-sdk,
  opentelemetry-semantic-conventions-ai, outlines, pandas, partial-json-parser, peft, prometheus-fastapi-instrumentator,
  py-cpuinfo, pyarrow, pybase64, pydantic, python-json-logger, python-multipart, pyzmq, ray, sentencepiece,
  setproctitle, tiktoken, timm, tokenizers, torch, torchaudio, torchvision, transformers, uvicorn, xformers, xgrammar,
  psutil, py-libnuma, cupy, flashinfer, nvidia-ml-py, pybind11, bash, librosa, soundfile,
  vllm-flash-attn ? null, cudaSupport ? torch.cudaSupport, cudaPackages ? { }, rocmSupport ? torch.rocmSupport,
  rocmPackages ? { }, gpuTargets ? [ ],
}:
let
  targets =
    if gpuTargets != [ ] then gpuTargets
    else if rocmSupport then rocmPackages.clr.gpuTargets else cudaPackages.flags.cudaCapabilities;
in
buildPythonPackage {
  pname = "vllm";
  version = "0.19.0";
  env = lib.optionalAttrs rocmSupport { PYTORCH_ROCM_ARCH = lib.concatStringsSep ";" targets; };
  cmakeFlags = lib.optionals cudaSupport [
    (lib.cmakeFeature "TORCH_CUDA_ARCH_LIST" (lib.concatStringsSep ";" targets))
    (lib.cmakeFeature "CUTLASS_NVCC_ARCHS_ENABLED" cudaPackages.flags.cmakeCudaArchitecturesString)
  ];
  dependencies = [ torch torchaudio torchvision xformers ];
}
