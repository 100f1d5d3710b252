# The installed package: find_package(rtopk) and pkg-config.
include(CMakePackageConfigHelpers)

# Who links the static library must find what it is made of; the shared one has it inside.
set(config_dependencies "")
set(pc_requires "")
set(pc_libs "")
if(NOT BUILD_SHARED_LIBS)
  string(APPEND config_dependencies "find_dependency(Threads)\n")
  set(pc_libs "-lstdc++ -lm -pthread -ldl")
  if(RTOPK_HAVE_HIGHWAY)
    string(APPEND config_dependencies "find_dependency(hwy CONFIG)\n")
    set(pc_requires "libhwy")
  endif()
  if(RTOPK_HAVE_CUDA)
    string(APPEND config_dependencies "find_dependency(CUDAToolkit)\n")
    if(RTOPK_CUDART STREQUAL "SHARED")
      string(APPEND pc_libs " -lcudart")
    else()
      string(APPEND pc_libs " -lcudart_static -lrt")
    endif()
  endif()
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rtopk)
install(TARGETS rtopk EXPORT rtopkTargets)
install(DIRECTORY include/rtopk DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT rtopkTargets NAMESPACE rtopk:: DESTINATION ${package_dir})
configure_package_config_file(cmake/rtopkConfig.cmake.in rtopkConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(rtopkConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rtopkConfig.cmake ${PROJECT_BINARY_DIR}/rtopkConfigVersion.cmake
        DESTINATION ${package_dir})

# Relative to where rtopk.pc lies, so that an installed tree can be moved.
set(pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_to_prefix ${pc_dir} ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH pc_to_libdir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH pc_to_includedir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/rtopk.pc.in rtopk.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rtopk.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
