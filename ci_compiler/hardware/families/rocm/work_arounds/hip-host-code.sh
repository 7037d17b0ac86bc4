export CMAKE_CXX_FLAGS="${lib.concatStringsSep " " cpuFlags} $CMAKE_CXX_FLAGS"
