(final: prev: {
  rocmPackages = prev.rocmPackages.overrideScope (
    _: rocm: { clr = rocm.clr.override { localGpuTargets = final.lib.splitString ";" gpuArchSM; }; }
  );
})
