# Sets RTOPK_HAVE_CUDA, and for which GPUs the CUDA backend is compiled: the one in this machine, unless
# CMAKE_CUDA_ARCHITECTURES says otherwise; where there is none to be seen, Hopper, for which the kernels are tuned.
set(RTOPK_HAVE_CUDA OFF)
if(RTOPK_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(RTOPK_HAVE_CUDA ON)
  elseif(RTOPK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "RTOPK_CUDA=ON, but there is no CUDA compiler")
  endif()
endif()

if(RTOPK_HAVE_CUDA)
  # Not in the cache, which a project that adds rtopk as a subdirectory shares with it.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE found
                    RESULT_VARIABLE failed ERROR_QUIET)
    if(failed EQUAL 0 AND found MATCHES "([0-9]+)\\.([0-9]+)")
      set(CMAKE_CUDA_ARCHITECTURES ${CMAKE_MATCH_1}${CMAKE_MATCH_2}-real)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 90)
    endif()
  endif()
  message(STATUS "rtopk: CUDA backend for sm_${CMAKE_CUDA_ARCHITECTURES}")
  enable_language(CUDA)
else()
  message(STATUS "rtopk: no CUDA backend in this build")
endif()
