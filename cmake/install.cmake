# The installed package: find_package(rtopk), pkg-config, and the components that cpack.cmake makes packages of.
include(CMakePackageConfigHelpers)

# A shared and a static library may be installed side by side, each by a build of its own. So each has its own files here,
# and rtopkConfig.cmake, which is the same in both, picks one.
if(BUILD_SHARED_LIBS)
  set(kind Shared)
else()
  set(kind Static)
endif()

# Who links the static library must find what it is made of; the shared one has it inside.
set(kind_dependencies "")
set(kind_libraries "")
set(pc_requires "")
set(pc_libs "-lstdc++ -lm -pthread -ldl")
set(pc_private_libs "")
if(RTOPK_HAVE_CUDA AND RTOPK_CUDART STREQUAL "SHARED")
  string(APPEND pc_libs " -lcudart")
elseif(RTOPK_HAVE_CUDA)
  string(APPEND pc_libs " -lcudart_static -lrt")
endif()
if(BUILD_SHARED_LIBS)
  # For `pkg-config --static`, where the static library lies beside it. Highway by its name: as a required package it would
  # have to be installed for the shared library, too.
  set(pc_private_libs "${pc_libs}")
  if(RTOPK_HAVE_HIGHWAY)
    string(PREPEND pc_private_libs "-lhwy ")
  endif()
  set(pc_libs "")
else()
  string(APPEND kind_dependencies "find_dependency(Threads)\n")
  # A project in C alone links without the C++ library, unless it is told to.
  set(kind_libraries "get_property(rtopk_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(NOT CXX IN_LIST rtopk_languages)
  target_link_libraries(rtopk::rtopk INTERFACE stdc++ m)
endif()
")
  if(RTOPK_HAVE_HIGHWAY)
    string(APPEND kind_dependencies "find_dependency(hwy CONFIG)\n")
    set(pc_requires "libhwy")
  endif()
  if(RTOPK_HAVE_CUDA)
    string(APPEND kind_dependencies "find_dependency(CUDAToolkit)\n")
  endif()
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rtopk)
# Components have the project's name, because projects that add rtopk as a subdirectory have components of their own.
install(
  TARGETS rtopk
  EXPORT rtopk${kind}Targets
  RUNTIME COMPONENT rtopk_runtime
  LIBRARY COMPONENT rtopk_runtime NAMELINK_COMPONENT rtopk_development
  ARCHIVE COMPONENT rtopk_development)
install(DIRECTORY include/rtopk DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT rtopk_development)
install(EXPORT rtopk${kind}Targets NAMESPACE rtopk:: DESTINATION ${package_dir} COMPONENT rtopk_development)
configure_file(cmake/rtopkKind.cmake.in rtopk${kind}.cmake @ONLY)
configure_package_config_file(cmake/rtopkConfig.cmake.in rtopkConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(rtopkConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/rtopkConfig.cmake ${PROJECT_BINARY_DIR}/rtopkConfigVersion.cmake
        ${PROJECT_BINARY_DIR}/rtopk${kind}.cmake
  DESTINATION ${package_dir}
  COMPONENT rtopk_development)

# Relative to where rtopk.pc lies, so that an installed tree can be moved.
set(pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_to_prefix ${pc_dir} ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH pc_to_libdir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH pc_to_includedir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/rtopk.pc.in rtopk.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rtopk.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT rtopk_development)
