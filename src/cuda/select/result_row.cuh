// Writes selected pairs. The type of the indices is known only at run time.
#pragma once

#include <cstdint>

#include "cuda/select/arguments.hpp"

namespace rtopk::cuda {

/// Calls `f` with a typed pointer to the indices of a row; null if they are not wanted.
template <class F>
__device__ void with_indices(const SelectArguments& args, std::int64_t row, F f) {
  const std::int64_t first = args.indices == nullptr ? 0 : row * args.k;
  switch (args.index_type) {
    case IndexType::i32: f(static_cast<std::int32_t*>(args.indices) + first); break;
    case IndexType::i64: f(static_cast<std::int64_t*>(args.indices) + first); break;
    case IndexType::u8: f(static_cast<std::uint8_t*>(args.indices) + first); break;
    case IndexType::u16: f(static_cast<std::uint16_t*>(args.indices) + first); break;
  }
}

/// Where the k results of one row go.
template <class T>
struct ResultRow {
  T* values;      ///< Null: not wanted.
  void* indices;  ///< Null: not wanted.
  IndexType index_type;

  __device__ ResultRow(const SelectArguments& args, std::int64_t row)
      : values(args.values == nullptr ? nullptr : static_cast<T*>(args.values) + row * args.k),
        indices(nullptr),
        index_type(args.index_type) {
    if (args.indices == nullptr) return;
    const std::int64_t first = row * args.k;
    switch (index_type) {
      case IndexType::i32: indices = static_cast<std::int32_t*>(args.indices) + first; break;
      case IndexType::i64: indices = static_cast<std::int64_t*>(args.indices) + first; break;
      case IndexType::u8: indices = static_cast<std::uint8_t*>(args.indices) + first; break;
      case IndexType::u16: indices = static_cast<std::uint16_t*>(args.indices) + first; break;
    }
  }

  /// A written index; only if indices are wanted.
  [[nodiscard]] __device__ std::int64_t index(std::int64_t position) const {
    switch (index_type) {
      case IndexType::i32: return static_cast<const std::int32_t*>(indices)[position];
      case IndexType::i64: return static_cast<const std::int64_t*>(indices)[position];
      case IndexType::u8: return static_cast<const std::uint8_t*>(indices)[position];
      case IndexType::u16: return static_cast<const std::uint16_t*>(indices)[position];
    }
    return 0;
  }

  __device__ void write(std::int64_t position, T value, std::int64_t index) const {
    if (values != nullptr) values[position] = value;
    write_index(position, index);
  }
  __device__ void write_index(std::int64_t position, std::int64_t index) const {
    if (indices == nullptr) return;
    switch (index_type) {
      case IndexType::i32: static_cast<std::int32_t*>(indices)[position] = static_cast<std::int32_t>(index); break;
      case IndexType::i64: static_cast<std::int64_t*>(indices)[position] = index; break;
      case IndexType::u8: static_cast<std::uint8_t*>(indices)[position] = static_cast<std::uint8_t>(index); break;
      case IndexType::u16: static_cast<std::uint16_t*>(indices)[position] = static_cast<std::uint16_t>(index); break;
    }
  }
};

}  // namespace rtopk::cuda
