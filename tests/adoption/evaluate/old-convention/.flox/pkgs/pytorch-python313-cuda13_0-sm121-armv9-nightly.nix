# From nothing, with packages that the stand-in knows nothing of
{ lib, stdenv, fetchFromGitHub, python313, cudaPackages_13_0, cmake, ninja, someLibrary, someBuilder, llvmPackages_18, ... }@args:
let
  python = python313.override { packageOverrides = final: prev: { helper = prev.buildPythonPackage { pname = "helper"; version = "1"; }; }; };
  inherit (python.pkgs) buildPythonPackage numpy helper;
  built = someBuilder { pname = "thing"; version = "3"; inherit (someLibrary) src; } "extra";
in
buildPythonPackage rec {
  pname = "pytorch-python313-cuda13_0-sm121-armv9-nightly";
  version = "2.9.0.dev20250901";
  src = fetchFromGitHub { owner = "pytorch"; repo = "pytorch"; rev = "nightly"; sha256 = lib.fakeSha256; };
  nativeBuildInputs = [ cmake ninja llvmPackages_18.clang ] ++ lib.optional (args ? neverThere) args.neverThere;
  buildInputs = with cudaPackages_13_0; [ cuda_cccl libcudss someLibrary.dev built ] ++ lib.optionals stdenv.hostPlatform.isLinux [ numpy helper ];
  TORCH_CUDA_ARCH_LIST = "12.1";
  USE_CUDA = true;
  env.CXXFLAGS = "-march=armv9-a+sve2";
  preBuild = ''
    export LD_LIBRARY_PATH=${lib.makeLibraryPath [ someLibrary cudaPackages_13_0.cudatoolkit ]}
    appendToVar cmakeFlags "-DCMAKE_CUDA_ARCHITECTURES=121"
  '';
  cmakeFlags = [ (lib.cmakeBool "USE_NCCL" false) (lib.cmakeFeature "CUDA_VERSION" "13.0") ];
  meta = { description = "PyTorch nightly"; platforms = [ "aarch64-linux" ]; };
}
