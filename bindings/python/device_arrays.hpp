// Arrays that Python describes by their address: those of CuPy.
#pragma once

#include <nanobind/nanobind.h>

#include "array.hpp"
#include "results.hpp"

namespace rtopk::python_binding {

/// An array by its address, shape, strides in bytes, the name of its dtype, and its device: "cuda" or "cpu", and a
/// number.
Array view_of_address(std::uint64_t address, nanobind::handle shape, nanobind::handle strides, const char* dtype,
                      const char* device, std::int32_t ordinal);

/// Results by a function of Python: allocate(shape, dtype, zero) gives an array and its address. dtype None is that of
/// the input.
class CallingAllocator final : public Allocator {
 public:
  explicit CallingAllocator(nanobind::handle allocate) : allocate_(allocate) {}

  Result make(const Shape& shape, std::int64_t axis, ResultType type, bool zero) override;
  Result workspace(std::size_t bytes) override;

 private:
  Result called(const Shape& shape, const char* dtype, bool zero);

  nanobind::handle allocate_;
};

}  // namespace rtopk::python_binding
