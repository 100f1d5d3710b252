// An array, wherever it comes from: where its elements lie, and what they are.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/types.hpp>

namespace rtopk::python_binding {

/// More dimensions than NumPy, DLPack's producers or torch have.
inline constexpr std::int64_t kMaxDims = 64;

/// Sizes of an array, without an allocation.
struct Shape {
  std::int64_t dims = 0;
  std::int64_t each[kMaxDims];
};

/// A view: whoever made it keeps the memory alive.
struct Array {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  bool swapped = false;  ///< The bytes of an element are in the other order than this machine's.
  Device device{};
  Shape shape;
  std::int64_t strides[kMaxDims];  ///< In bytes.
};

/// What the elements of a result are.
enum class ResultType : std::uint8_t { elements, i64, i32, u16, u8, boolean };

inline constexpr const char* kAcceptedTypes = "float32, float16, bfloat16, float64, int32";

}  // namespace rtopk::python_binding
