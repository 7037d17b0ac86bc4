{ python313Packages, lib, cudaPackages_12_3 }:
let cpuFlags = [ "-mavx" "-mno-fma" "-mno-bmi" "-mno-bmi2" "-mno-avx2" ]; in
(python313Packages.torchaudio.override {  }).overrideAttrs (old: {
  preConfigure = (old.preConfigure or "") + ''
    export CXXFLAGS="$CXXFLAGS ${lib.concatStringsSep " " cpuFlags}"
    export CFLAGS="$CFLAGS ${lib.concatStringsSep " " cpuFlags}"
  '';
})
