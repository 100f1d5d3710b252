# Builds the tree that this port lies in:
#
#   vcpkg install rtopk --overlay-ports=<tree>/packaging/vcpkg/ports
#
# vcpkg sees that the port changed, not that the tree did: add --no-binarycaching after a change of the sources.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../../.." ABSOLUTE)
if(NOT EXISTS "${SOURCE_PATH}/include/rtopk/rtopk.hpp")
  message(FATAL_ERROR "this port builds the tree of rtopk that it lies in, and ${SOURCE_PATH} has no include/rtopk/rtopk.hpp: "
                      "use it from its place, packaging/vcpkg/ports")
endif()

vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES cuda RTOPK_CUDA tools RTOPK_BUILD_TOOLS)

# The triplet says whether the library is shared. Highway is vcpkg's, or the build stops.
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS ${features} -DRTOPK_BUILD_TESTS=OFF -DRTOPK_HIGHWAY=ON
                                                           -DRTOPK_DOWNLOAD=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/rtopk)
vcpkg_fixup_pkgconfig()
if("tools" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES rtopk AUTO_CLEAN)
endif()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CURRENT_PORT_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
