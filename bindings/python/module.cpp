// rtopk._native: selection from any array, for python/rtopk/_arrays.
#include <cstdint>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <rtopk/rtopk.hpp>

#include "common/build_text.hpp"
#include "common/gpu_traits.hpp"
#include "device_arrays.hpp"
#include "dlpack.hpp"
#include "errors.hpp"
#include "numpy_arrays.hpp"
#include "options.hpp"
#include "selection.hpp"

namespace rtopk::python_binding {
namespace {

namespace nb = nanobind;
using nb::handle;

nb::object of_numpy(handle array, int form, handle others) {
  const Options options = parse_options(form, others);
  const Array view = view_of_numpy(array);
  NumpyAllocator allocator(array, view.swapped);
  return select(view, options, allocator);
}

nb::object of_dlpack(handle array, int form, handle others) {
  const Options options = parse_options(form, others);
  const Lent lent(array);
  DlpackAllocator allocator(lent.array().dtype);
  return select(lent.array(), options, allocator);
}

nb::object of_address(std::uint64_t address, handle shape, handle strides, const char* dtype, const char* device,
                      std::int32_t ordinal, std::uint64_t stream, handle allocate, int form, handle others) {
  const Options options = parse_options(form, others);
  CallingAllocator allocator(allocate);
  return select(view_of_address(address, shape, strides, dtype, device, ordinal), options, allocator,
                reinterpret_cast<void*>(stream));
}

/// The compute capability of a GPU, such as 90. Throws if this build cannot use it, and says why.
std::int32_t compute_capability(std::int32_t ordinal) {
  Traits traits;
  check(bindings::traits_of_gpu(ordinal, traits));
  return traits.compute_capability;
}

}  // namespace
}  // namespace rtopk::python_binding

NB_MODULE(_native, module) {
  using namespace rtopk::python_binding;
  module.def("of_numpy", &of_numpy);
  module.def("of_dlpack", &of_dlpack);
  module.def("of_address", &of_address);
  module.def("compute_capability", &compute_capability);
  module.def("build_text", &rtopk::bindings::build_text);
}
