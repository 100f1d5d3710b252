# Debian packages, by `make deb`, or by `cpack` in a build folder whose prefix is /usr: libraries then lie where Debian has them.
#   librtopk0.1   the shared library; with the version in its name, so that several can be installed
#   librtopk-dev  headers, find_package, pkg-config. No static library: it needs Highway's, which Debian does not have
#   rtopk         the program, if it is built

find_program(GZIP gzip)
mark_as_advanced(GZIP)
if(NOT BUILD_SHARED_LIBS OR NOT GZIP)
  return()
endif()
if(RTOPK_HIGHWAY_LICENSE AND NOT RTOPK_HIGHWAY STREQUAL "STATIC")
  message(STATUS "rtopk: no Debian packages from this build, which brings a shared libhwy of its own; install libhwy-dev, or set "
                 "RTOPK_HIGHWAY=STATIC")
  return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME rtopk)
set(CPACK_PACKAGE_VENDOR "rtopk contributors")
set(RTOPK_MAINTAINER "rtopk contributors <rtopk@packages.invalid>" CACHE STRING "Who answers for the Debian packages")
mark_as_advanced(RTOPK_MAINTAINER)
set(CPACK_PACKAGE_CONTACT "${RTOPK_MAINTAINER}")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
# Whatever the umask of who packs.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# What dpkg-shlibdeps finds out, and by which name others find the library.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

set(runtime_package librtopk${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(deb_version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
# Every package has a first line of its own.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(about "rtopk selects the k largest or smallest elements of every row of a matrix,
with their indices. Results are exact, and the same bits in every run.")
if(RTOPK_HAVE_CUDA)
  string(APPEND about "\n\nThis build selects on CPUs and on NVIDIA GPUs.")
endif()

set(CPACK_COMPONENTS_ALL rtopk_runtime rtopk_development)
set(CPACK_DEBIAN_RTOPK_RUNTIME_PACKAGE_NAME ${runtime_package})
set(CPACK_DEBIAN_RTOPK_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RTOPK_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
set(CPACK_DEBIAN_RTOPK_RUNTIME_DESCRIPTION "row-wise top-k selection (shared library)\n${about}")

set(CPACK_DEBIAN_RTOPK_DEVELOPMENT_PACKAGE_NAME librtopk-dev)
set(CPACK_DEBIAN_RTOPK_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_RTOPK_DEVELOPMENT_PACKAGE_DEPENDS "${runtime_package} (= ${deb_version})")
set(CPACK_DEBIAN_RTOPK_DEVELOPMENT_DESCRIPTION
    "row-wise top-k selection (development files)\n${about}\n\nThis package has the headers for C and C++, and the files of CMake and\npkg-config.")

if(TARGET rtopk_program AND RTOPK_BUILD_TOOLS)
  list(APPEND CPACK_COMPONENTS_ALL rtopk_program)
  set(CPACK_DEBIAN_RTOPK_PROGRAM_PACKAGE_NAME rtopk)
  set(CPACK_DEBIAN_RTOPK_PROGRAM_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_RTOPK_PROGRAM_PACKAGE_DEPENDS "${runtime_package} (= ${deb_version})")
  set(CPACK_DEBIAN_RTOPK_PROGRAM_DESCRIPTION
      "row-wise top-k selection (program)\n${about}\n\nThis package has the program, which selects from NumPy files, checks and\nmeasures.")
endif()

# What every Debian package has under /usr/share/doc.
set(notes ${PROJECT_BINARY_DIR}/debian)
file(READ LICENSE license)
string(REGEX REPLACE "^MIT License\n\nCopyright \\(c\\) ([^\n]*)\n\n(.*[^\n])\n*$" "\\2" license "${license}")
set(copyright "${CMAKE_MATCH_1}")
# Blank lines are dots there, and others begin with a blank.
string(REPLACE "\n\n" "\n.\n" license "${license}")
string(REPLACE "\n" "\n " license "${license}")
configure_file(packaging/debian/copyright.in ${notes}/copyright @ONLY)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(packaging/debian/changelog.in ${notes}/changelog.Debian @ONLY)
execute_process(COMMAND ${GZIP} -9nf ${notes}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  # For the packages alone: elsewhere than on Debian, nobody looks there.
  install(FILES ${notes}/copyright ${notes}/changelog.Debian.gz COMPONENT ${component}
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME} EXCLUDE_FROM_ALL)
endforeach()

include(CPack)
