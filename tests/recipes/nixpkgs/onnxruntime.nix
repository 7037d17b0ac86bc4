# Arguments: pkgs/by-name/on/onnxruntime/package.nix, nixpkgs 02688433ee15c0ca0913e2955e0c44a7477e497d.
{
  config, stdenv, lib, fetchFromGitHub, fetchpatch, abseil-cpp_202407, cmake, cpuinfo, eigen, flatbuffers_23,
  glibcLocales, gtest, howard-hinnant-date, libpng, nlohmann_json, perl, pkg-config, python3Packages,
  removeReferencesTo, re2, zlib, protobuf, microsoft-gsl, darwinMinVersionHook, pythonSupport ? true,
  cudaSupport ? config.cudaSupport, ncclSupport ? cudaSupport, rocmSupport ? config.rocmSupport,
  withFullProtobuf ? false, cudaPackages ? { }, rocmPackages,
}:
stdenv.mkDerivation {
  pname = "onnxruntime";
  version = "1.22.2";
  inherit pythonSupport;
  cmakeFlags = lib.optionals cudaSupport [
    (lib.cmakeFeature "CMAKE_CUDA_ARCHITECTURES" cudaPackages.flags.cmakeCudaArchitecturesString)
  ];
}
