// Arrays that Python describes by their address.
#include "device_arrays.hpp"

#include <string>
#include <string_view>

#include "errors.hpp"

namespace rtopk::python_binding {
namespace {

namespace nb = nanobind;

DType type_named(std::string_view name) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32}) {
    const char* const names[] = {"float32", "float16", "bfloat16", "float64", "int32"};
    if (name == names[static_cast<int>(type)]) return type;
  }
  refuse(PyExc_TypeError, "a has dtype " + std::string(name) + "; accepted: " + kAcceptedTypes);
}

}  // namespace

Array view_of_address(std::uint64_t address, nb::handle shape, nb::handle strides, const char* dtype,
                      const char* device, std::int32_t ordinal) {
  Array array;
  array.data = reinterpret_cast<const std::byte*>(address);
  array.dtype = type_named(dtype);
  array.device = {std::string_view(device) == "cuda" ? DeviceKind::cuda : DeviceKind::cpu, ordinal};
  array.shape.dims = static_cast<std::int64_t>(nb::len(shape));
  if (array.shape.dims > kMaxDims || nb::len(strides) != nb::len(shape)) {
    refuse(PyExc_ValueError, "a has " + std::to_string(array.shape.dims) + " dimensions and " +
                                 std::to_string(nb::len(strides)) + " strides; accepted: as many, at most 64");
  }
  for (std::int64_t i = 0; i < array.shape.dims; ++i) {
    array.shape.each[i] = nb::cast<std::int64_t>(shape[i]);
    array.strides[i] = nb::cast<std::int64_t>(strides[i]);
  }
  return array;
}

Result CallingAllocator::called(const Shape& shape, const char* dtype, bool zero) {
  const nb::object pair =
      allocate_(as_tuple(shape), dtype == nullptr ? nb::object(nb::none()) : nb::object(nb::str(dtype)), zero);
  return {nb::object(pair[0]), reinterpret_cast<void*>(nb::cast<std::uint64_t>(pair[1]))};
}

Result CallingAllocator::make(const Shape& shape, std::int64_t axis, ResultType type, bool zero) {
  const char* const names[] = {nullptr, "int64", "int32", "uint16", "uint8", "bool"};
  Result result = called(with_last(shape, axis), names[static_cast<int>(type)], zero);
  result.array = with_axis(std::move(result.array), shape.dims, axis);
  return result;
}

Result CallingAllocator::workspace(std::size_t bytes) {
  Shape shape;
  shape.dims = 1;
  shape.each[0] = static_cast<std::int64_t>(bytes);
  return called(shape, "uint8", false);
}

}  // namespace rtopk::python_binding
