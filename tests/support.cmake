# What the tests and the fuzz targets share: the oracle, the rows, the runners and the comparison. No GoogleTest here.
include_guard(GLOBAL)

add_library(rtopk_test_support STATIC
  ${CMAKE_CURRENT_LIST_DIR}/check.cpp
  ${CMAKE_CURRENT_LIST_DIR}/device_memory.cpp
  ${CMAKE_CURRENT_LIST_DIR}/encoding.cpp
  ${CMAKE_CURRENT_LIST_DIR}/general_rows.cpp
  ${CMAKE_CURRENT_LIST_DIR}/graph.cpp
  ${CMAKE_CURRENT_LIST_DIR}/guarded_buffer.cpp
  ${CMAKE_CURRENT_LIST_DIR}/large_memory.cpp
  ${CMAKE_CURRENT_LIST_DIR}/matrix.cpp
  ${CMAKE_CURRENT_LIST_DIR}/oracle.cpp
  ${CMAKE_CURRENT_LIST_DIR}/runner.cpp)
target_include_directories(rtopk_test_support PUBLIC ${CMAKE_CURRENT_LIST_DIR} ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(rtopk_test_support PUBLIC rtopk::rtopk)
# The paper's arithmetic is defined operation by operation.
target_compile_options(rtopk_test_support PRIVATE -ffp-contract=off)
if(RTOPK_SANITIZE STREQUAL "thread")
  # The oracle and what makes inputs are most of the work of these tests. All that they share with the library's threads is the
  # input, which nobody writes while they run.
  foreach(file encoding general_rows matrix oracle)
    set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/${file}.cpp PROPERTIES COMPILE_OPTIONS -fno-sanitize=thread)
  endforeach()
endif()

if(RTOPK_HAVE_CUDA)
  find_package(CUDAToolkit REQUIRED)
  target_sources(rtopk_test_support PRIVATE ${CMAKE_CURRENT_LIST_DIR}/cuda_runner.cpp)
  target_link_libraries(rtopk_test_support PRIVATE CUDA::cudart_static)
  target_compile_definitions(rtopk_test_support PRIVATE RTOPK_TEST_CUDA)
endif()

if(RTOPK_HAVE_HIGHWAY)
  target_link_libraries(rtopk_test_support PRIVATE ${RTOPK_HIGHWAY_TARGET})
  target_compile_definitions(rtopk_test_support PRIVATE RTOPK_TEST_HIGHWAY)
endif()
