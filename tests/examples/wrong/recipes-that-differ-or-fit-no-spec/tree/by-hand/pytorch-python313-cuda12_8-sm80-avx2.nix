{ python313Packages, lib, cudaPackages_12_3 }:
let cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ]; in
(python313Packages.torch.override { cudaSupport = true; gpuTargets = [ "8.0" "8.6" ]; }).overrideAttrs (old: {
  preConfigure = (old.preConfigure or "") + ''
    export CXXFLAGS="$CXXFLAGS ${lib.concatStringsSep " " cpuFlags}"
    export CFLAGS="$CFLAGS ${lib.concatStringsSep " " cpuFlags}"
  '';
})
