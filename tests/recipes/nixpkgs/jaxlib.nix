# Arguments: pkgs/development/python-modules/jaxlib/default.nix, nixpkgs 56ed99c3a2a48ad5b684075bedbb8208ed83c182.
{
  lib, pkgs, stdenv, addDriverRunpath, autoAddDriverRunpath, bazel_7, binutils, buildBazelPackage,
  buildPythonPackage, cctools, curl, cython, fetchFromGitHub, git, jsoncpp, nsync, openssl, pybind11, setuptools,
  symlinkJoin, wheel, build, which, absl-py, flatbuffers, ml-dtypes, numpy, scipy, six, double-conversion, giflib,
  libjpeg_turbo, python, snappy-cpp, zlib, config, cudaSupport ? config.cudaSupport, cudaPackages, mklSupport ? true,
}:
buildPythonPackage {
  pname = "jaxlib";
  version = "0.4.28";
  inherit mklSupport;
  TF_CUDA_COMPUTE_CAPABILITIES = lib.optionals cudaSupport cudaPackages.flags.realArches;
}
