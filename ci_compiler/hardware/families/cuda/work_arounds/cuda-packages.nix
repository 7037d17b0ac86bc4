(final: prev: { cudaPackages = final.@cuda-packages@; })
