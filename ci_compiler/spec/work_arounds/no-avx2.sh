for set in AVX2 AVX512; do
  sed -i "1i set(C_''${set}_FOUND FALSE CACHE BOOL off)" cmake/Modules/FindAVX.cmake
  sed -i "1i set(CXX_''${set}_FOUND FALSE CACHE BOOL off)" cmake/Modules/FindAVX.cmake
  sed -i "1i set(CAFFE2_COMPILER_SUPPORTS_''${set}_EXTENSIONS FALSE CACHE BOOL off)" cmake/MiscCheck.cmake
done
