// Maps run-time enumerators to template arguments, for all backends.
#pragma once

#include <utility>

#include <rtopk/types.hpp>

#include "core/keys.hpp"

namespace rtopk::core {

/// Calls `f` with a null pointer to the element type of `type`, for example f(static_cast<float*>(nullptr)).
template <class F>
decltype(auto) with_element_type(DType type, F&& f) {
  switch (type) {
    case DType::f16: return f(static_cast<F16*>(nullptr));
    case DType::bf16: return f(static_cast<BF16*>(nullptr));
    case DType::f64: return f(static_cast<double*>(nullptr));
    case DType::i32: return f(static_cast<std::int32_t*>(nullptr));
    case DType::f32: break;
  }
  return f(static_cast<float*>(nullptr));
}

template <Direction direction>
struct DirectionTag {
  static constexpr Direction value = direction;
};

/// Calls `f` with DirectionTag<direction>.
template <class F>
decltype(auto) with_direction(Direction direction, F&& f) {
  if (direction == Direction::smallest) return f(DirectionTag<Direction::smallest>{});
  return f(DirectionTag<Direction::largest>{});
}

}  // namespace rtopk::core
