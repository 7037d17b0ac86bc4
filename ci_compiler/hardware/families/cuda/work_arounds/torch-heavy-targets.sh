cat >> CMakeLists.txt <<'CMAKE'
set_property(GLOBAL APPEND PROPERTY JOB_POOLS heavy=$ENV{HEAVY_JOBS})
foreach(target torch_cuda flash_attention)
  if(TARGET ''${target})
    set_property(TARGET ''${target} PROPERTY JOB_POOL_COMPILE heavy)
  endif()
endforeach()
CMAKE
