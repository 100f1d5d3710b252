# What can be chosen at configure time, and how the developers of rtopk build it. A project that adds rtopk as a
# subdirectory gets the library alone, with its own warnings, sanitizers and output directories.

if(PROJECT_IS_TOP_LEVEL)
  # Elsewhere it is the other project's choice, for all of its libraries.
  option(BUILD_SHARED_LIBS "Build librtopk as a shared library" ON)
endif()
option(RTOPK_BUILD_TOOLS "Build the program rtopk" ${PROJECT_IS_TOP_LEVEL})
option(RTOPK_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(RTOPK_BUILD_FUZZ "Build the fuzz targets (Clang only)" OFF)
set(RTOPK_FUZZ_SECONDS 20 CACHE STRING "How long a test runs a fuzz target")
set(RTOPK_SOAK_SECONDS 30 CACHE STRING "How long a test lets the program draw random problems")
option(RTOPK_INSTALL "Generate the install rules" ${PROJECT_IS_TOP_LEVEL})
set(RTOPK_SANITIZE "" CACHE STRING "Sanitizers to build with, e.g. address;undefined")

# AUTO takes what is there, ON demands it, OFF leaves it out.
set(RTOPK_CUDA AUTO CACHE STRING "AUTO, ON or OFF")
set_property(CACHE RTOPK_CUDA PROPERTY STRINGS AUTO ON OFF)
# highway.cmake says what they mean.
set(RTOPK_HIGHWAY ON CACHE STRING "ON, STATIC, AUTO or OFF")
set_property(CACHE RTOPK_HIGHWAY PROPERTY STRINGS ON STATIC AUTO OFF)
option(RTOPK_DOWNLOAD "Download Highway where it is not installed" ON)
set(RTOPK_HIGHWAY_ARCHIVE "" CACHE FILEPATH "The pinned release of Highway, where it cannot be downloaded")
# STATIC: users of librtopk need a driver, not a toolkit. SHARED: for a package that depends on one with the runtime.
set(RTOPK_CUDART STATIC CACHE STRING "The CUDA runtime that librtopk links: STATIC or SHARED")
set_property(CACHE RTOPK_CUDART PROPERTY STRINGS STATIC SHARED)
option(RTOPK_QUICK_KERNELS "Compile kernels in less than half the time, for tests where no GPU runs them; they are slow" OFF)
# The Python package: the module for any array needs a Python with nanobind, the operators one with torch or with JAX.
# AUTO: where the Python has it.
foreach(front PYTHON TORCH JAX)
  set(RTOPK_BUILD_${front} OFF CACHE STRING "AUTO, ON or OFF")
  set_property(CACHE RTOPK_BUILD_${front} PROPERTY STRINGS AUTO ON OFF)
endforeach()

# Sets `result` to whether all packages are there, and says which are not: a machine without them still builds the rest.
function(rtopk_find_all what result)
  foreach(package ${ARGN})
    find_package(${package} QUIET)
    if(NOT ${package}_FOUND)
      list(APPEND missing ${package})
    endif()
  endforeach()
  if(missing)
    list(JOIN missing ", " missing)
    message(STATUS "rtopk: left out: ${what} (not found: ${missing})")
  endif()
  string(COMPARE EQUAL "${missing}" "" found)
  set(${result} ${found} PARENT_SCOPE)
endfunction()

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

find_program(CCACHE ccache)
mark_as_advanced(CCACHE)
if(CCACHE)
  foreach(language C CXX)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${CCACHE} CACHE STRING "")
  endforeach()
  # By relative paths: another checkout of the same sources need not compile kernels again, which takes many minutes.
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE} CACHE STRING "")
endif()

include(${CMAKE_CURRENT_LIST_DIR}/warnings.cmake)

if(RTOPK_SANITIZE)
  list(JOIN RTOPK_SANITIZE "," sanitizers)
  # A finding ends the program, so that a test cannot pass over it.
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${sanitizers};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=${sanitizers})
endif()
