mkdir -p /build/cccl-compat/cccl
for headers in cuda cub thrust nv; do
  ln -sfn "${lib.getDev pkgs.cudaPackages.cuda_cccl}/include/$headers" "/build/cccl-compat/cccl/$headers"
done
export CXXFLAGS="-I/build/cccl-compat $CXXFLAGS"
export CFLAGS="-I/build/cccl-compat $CFLAGS"
export CUDAFLAGS="-I/build/cccl-compat $CUDAFLAGS"
