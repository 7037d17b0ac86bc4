cat > cmake/Modules/FindCUDAToolkit.cmake <<'CMAKE'
if(NOT CI_COMPILER_FOUND_CUDA_TOOLKIT)
  set(CI_COMPILER_FOUND_CUDA_TOOLKIT TRUE)
  include(''${CMAKE_ROOT}/Modules/FindCUDAToolkit.cmake)
endif()
CMAKE
