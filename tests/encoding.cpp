// Conversion of numbers and indices to bytes and back.
#include "encoding.hpp"

#include <cstring>

#include <rtopk/half.hpp>

namespace rtopk_test {

using rtopk::DType;
using rtopk::IndexType;

namespace {

template <class X>
void append(Bytes& bytes, X x) {
  const auto* from = reinterpret_cast<const std::byte*>(&x);
  bytes.insert(bytes.end(), from, from + sizeof x);
}

}  // namespace

Bytes encode(const std::vector<float>& numbers, DType dtype) {
  Bytes bytes;
  for (const float x : numbers) {
    if (dtype == DType::f32) append(bytes, x);
    if (dtype == DType::f16) append(bytes, rtopk::f16_from_float(x));
    if (dtype == DType::bf16) append(bytes, rtopk::bf16_from_float(x));
  }
  return bytes;
}

std::vector<float> decode(const Bytes& bytes, DType dtype) {
  const std::size_t size = rtopk::size_of(dtype);
  std::vector<float> numbers(bytes.size() / size);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::uint16_t half = 0;
    if (dtype == DType::f32) {
      std::memcpy(&numbers[i], &bytes[i * size], size);
    } else {
      std::memcpy(&half, &bytes[i * size], size);
      numbers[i] = dtype == DType::f16 ? rtopk::float_from_f16(half) : rtopk::float_from_bf16(half);
    }
  }
  return numbers;
}

Bytes encode(const std::vector<std::int64_t>& indices, IndexType type) {
  Bytes bytes;
  for (const std::int64_t i : indices) {
    switch (type) {
      case IndexType::u8: append(bytes, static_cast<std::uint8_t>(i)); break;
      case IndexType::u16: append(bytes, static_cast<std::uint16_t>(i)); break;
      case IndexType::i32: append(bytes, static_cast<std::int32_t>(i)); break;
      default: append(bytes, i); break;
    }
  }
  return bytes;
}

Bytes encode(const std::vector<std::int64_t>& numbers, rtopk::ArrayType type) {
  if (type == rtopk::ArrayType::none) return {};
  return encode(numbers, type == rtopk::ArrayType::i32 ? IndexType::i32 : IndexType::i64);
}

std::vector<std::int64_t> decode(const Bytes& bytes, IndexType type) {
  const std::size_t size = rtopk::size_of(type);
  std::vector<std::int64_t> indices(bytes.size() / size);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::int32_t narrow = 0;
    if (type == IndexType::i32) std::memcpy(&narrow, &bytes[i * size], size);
    indices[i] = narrow;
    if (type == IndexType::i64) std::memcpy(&indices[i], &bytes[i * size], size);
  }
  return indices;
}

}  // namespace rtopk_test
