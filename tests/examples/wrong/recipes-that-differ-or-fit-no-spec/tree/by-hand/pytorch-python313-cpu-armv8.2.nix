{ python313Packages, lib, cudaPackages_12_3 }:
let cpuFlags = [ "-march=armv8.2-a+fp16+dotprod" ]; in
(python313Packages.torch.override { cudaSupport = false; }).overrideAttrs (old: {
  preConfigure = (old.preConfigure or "") + ''
    export CXXFLAGS="$CXXFLAGS ${lib.concatStringsSep " " cpuFlags}"
    export CFLAGS="$CFLAGS ${lib.concatStringsSep " " cpuFlags}"
  '';
})
