// Converts numbers and indices to the bytes of a type, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <rtopk/rows.hpp>
#include <rtopk/types.hpp>

namespace rtopk_test {

using Bytes = std::vector<std::byte>;

/// For f32, f16 and bf16.
Bytes encode(const std::vector<float>& numbers, rtopk::DType dtype);
std::vector<float> decode(const Bytes& bytes, rtopk::DType dtype);

Bytes encode(const std::vector<std::int64_t>& indices, rtopk::IndexType type);
/// Nothing if there is no array.
Bytes encode(const std::vector<std::int64_t>& numbers, rtopk::ArrayType type);
/// For i32 and i64.
std::vector<std::int64_t> decode(const Bytes& bytes, rtopk::IndexType type);

}  // namespace rtopk_test
