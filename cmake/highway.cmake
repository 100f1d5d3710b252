# Highway, with which the CPU backend is written. RTOPK_HIGHWAY says which one:
#   ON      the one that is installed, or else a pinned release, downloaded and built here; RTOPK_HIGHWAY_ARCHIVE is its
#           .tar.gz where that cannot be downloaded
#   STATIC  one that need not be found at run time: an installed static library, or the pinned release. Where neither can be
#           had, the installed shared library, which the Python package then carries
#   OFF     none: the CPU backend is the scalar reference, which is slower than torch.topk
#   AUTO    the one that is installed, or none: for machines without network whose GPU is what matters
# The scalar reference has to be asked for: a package that is slower than what it replaces must not come unnoticed.
#
# Sets RTOPK_HAVE_HIGHWAY, and with it RTOPK_HIGHWAY_TARGET, hwy_VERSION and what the package gets beside its library:
# RTOPK_HIGHWAY_CARRIED (whether the shared library) and RTOPK_HIGHWAY_LICENSE (of the sources that were built here).

set(oldest_highway 1.0.3)
set(pinned_highway 1.2.0)
set(pinned_highway_sha256 7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343)
# The same bytes in two places: a network may have a mirror of one of them alone.
set(pinned_highway_urls
    https://github.com/google/highway/archive/refs/tags/${pinned_highway}.tar.gz
    http://deb.debian.org/debian/pool/main/h/highway/highway_${pinned_highway}.orig.tar.gz)
set(download_seconds 60)

# Sets `result` to the folder with the sources of the pinned release, or to "" where they cannot be had.
function(rtopk_download_highway result)
  set(name highway-${pinned_highway})
  set(sources ${PROJECT_BINARY_DIR}/${name})
  set(archive ${PROJECT_BINARY_DIR}/${name}.tar.gz)
  set(urls ${pinned_highway_urls})
  if(RTOPK_HIGHWAY_ARCHIVE)
    get_filename_component(file ${RTOPK_HIGHWAY_ARCHIVE} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
    set(urls file://${file})
  endif()
  foreach(url ${urls})
    if(EXISTS ${sources})
      break()
    endif()
    message(STATUS "rtopk: getting Highway ${pinned_highway} from ${url}")
    file(DOWNLOAD ${url} ${archive} STATUS status TIMEOUT ${download_seconds})
    list(GET status 0 failed)
    list(GET status 1 reason)
    file(SHA256 ${archive} sha256)
    if(failed)
      message(STATUS "rtopk: that failed: ${reason}")
    elseif(NOT sha256 STREQUAL pinned_highway_sha256)
      message(STATUS "rtopk: that is something else: its SHA-256 is ${sha256}, not ${pinned_highway_sha256}")
    else()
      # Moved when all of it is there: an interrupted configuration leaves no half of it.
      file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${archive}.content)
      file(RENAME ${archive}.content/${name} ${sources})
    endif()
  endforeach()
  if(NOT EXISTS ${sources})
    set(sources "")
  endif()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# Builds the pinned release as a part of this project.
function(rtopk_add_highway sources)
  # These let variables of this function be its options.
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
  set(CMAKE_POLICY_DEFAULT_CMP0126 NEW)
  set(CMAKE_COMPILE_WARNING_AS_ERROR OFF)
  set(BUILD_TESTING OFF)
  set(HWY_ENABLE_CONTRIB OFF)
  set(HWY_ENABLE_EXAMPLES OFF)
  set(HWY_ENABLE_TESTS OFF)
  # Who links an installed librtopk.a needs it too.
  set(HWY_ENABLE_INSTALL ${RTOPK_INSTALL})
  set(all EXCLUDE_FROM_ALL)
  if(RTOPK_INSTALL)
    set(all "")
  endif()
  if(RTOPK_HIGHWAY STREQUAL "STATIC")
    set(HWY_FORCE_STATIC_LIBS ON)
  endif()
  add_subdirectory(${sources} ${PROJECT_BINARY_DIR}/highway ${all} SYSTEM)
  target_compile_options(hwy PRIVATE -w)  # ours are not its warnings
endfunction()

set(RTOPK_HAVE_HIGHWAY OFF)
set(RTOPK_HIGHWAY_CARRIED OFF)
set(RTOPK_HIGHWAY_LICENSE "")
if(RTOPK_HIGHWAY AND TARGET hwy)
  # The project that rtopk is a part of builds Highway itself; a second one would have the same name.
  set(RTOPK_HAVE_HIGHWAY ON)
  set(RTOPK_HIGHWAY_TARGET hwy)
  get_target_property(hwy_VERSION hwy VERSION)
  if(NOT hwy_VERSION)
    set(hwy_VERSION ${oldest_highway})
  endif()
  message(STATUS "rtopk: CPU backend with Highway ${hwy_VERSION} (of ${CMAKE_PROJECT_NAME})")
  return()
endif()
set(installed "")
if(RTOPK_HIGHWAY)
  find_package(hwy ${oldest_highway} CONFIG QUIET)
  if(hwy_FOUND)
    get_target_property(installed hwy::hwy TYPE)
  endif()
endif()
if(NOT RTOPK_HIGHWAY OR (RTOPK_HIGHWAY STREQUAL "AUTO" AND NOT installed))
  message(STATUS "rtopk: no Highway (RTOPK_HIGHWAY=${RTOPK_HIGHWAY}): the CPU backend is the scalar reference, correct but slow")
  return()
endif()

set(sources "")
if((RTOPK_DOWNLOAD OR RTOPK_HIGHWAY_ARCHIVE) AND NOT installed STREQUAL "STATIC_LIBRARY" AND (RTOPK_HIGHWAY STREQUAL "STATIC" OR NOT installed))
  rtopk_download_highway(sources)
endif()

if(sources)
  rtopk_add_highway(${sources})
  set(RTOPK_HIGHWAY_TARGET hwy)
  set(RTOPK_HIGHWAY_LICENSE ${sources}/LICENSE-BSD3)
  set(hwy_VERSION ${pinned_highway})
  set(which "built here")
elseif(installed)
  set(RTOPK_HIGHWAY_TARGET hwy::hwy)
  set(which "installed")
  if(RTOPK_HIGHWAY STREQUAL "STATIC" AND NOT installed STREQUAL "STATIC_LIBRARY")
    set(RTOPK_HIGHWAY_CARRIED ON)
    set(which "installed, as a shared library")
  endif()
else()
  # The blank in front keeps CMake from breaking the line.
  message(FATAL_ERROR " rtopk needs Highway ${oldest_highway} or later: install libhwy-dev (Debian, Ubuntu), highway-devel "
                      "(Fedora) or highway (Homebrew), or let CMake download it; RTOPK_HIGHWAY=OFF (pip: -C "
                      "cmake.define.RTOPK_HIGHWAY=OFF) builds a scalar CPU backend, which is slower than torch.topk")
endif()
set(RTOPK_HAVE_HIGHWAY ON)
message(STATUS "rtopk: CPU backend with Highway ${hwy_VERSION} (${which})")
