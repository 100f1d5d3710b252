// The value of a sorted result.
#pragma once

#include <cstdint>

#include "cuda/select/arguments.hpp"
#include "cuda/select/element.cuh"

namespace rtopk::cuda {

/// The original bits of an element of a row, whose directed key and index are known.
template <class T>
__device__ T value_of_sorted(const SelectArguments& args, const T* row, core::KeyOf<T> directed, std::int64_t index) {
  using Key = core::KeyOf<T>;
  const Key key = args.smallest ? static_cast<Key>(core::max_key<T> - directed) : directed;
  // For zero and NaN the key does not determine the bits: the sign of zero, and which NaN.
  if (core::is_floating<T> && (key == core::key_of(T{}) || key == core::max_key<T>)) return row[index];
  return core::value_of<T>(key);
}

}  // namespace rtopk::cuda
