# TorchVision CPU-only optimized for AVX2
{ python3Packages
, lib
, openblas
}:
let
  cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ];
  customPytorch = (python3Packages.pytorch.override { cudaSupport = false; }).overrideAttrs (oldAttrs: {
    buildInputs = oldAttrs.buildInputs ++ [ openblas.dev ];
    preConfigure = (oldAttrs.preConfigure or "") + ''
      export CXXFLAGS="$CXXFLAGS ${lib.concatStringsSep " " cpuFlags}"
    '';
  });
in
(python3Packages.torchvision.override { torch = customPytorch; }).overrideAttrs (oldAttrs: {
  pname = "torchvision-python313-cpu-avx2";
  meta = oldAttrs.meta // { platforms = lib.platforms.linux; };
})
