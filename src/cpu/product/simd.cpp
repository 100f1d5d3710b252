// SIMD kernels of products with CBSR rows, compiled for every instruction set.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/backend.hpp"
#include "cpu/product/product.hpp"
#include "cpu/runtime/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/product/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rtopk::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
// Vectors of sums in flight: half of the registers.
constexpr int kVectors = HWY_ARCH_ARM ? 16 : 8;
// Elements of a panel: a copy of some columns of W with contiguous rows. 64 KiB are the L1 cache of a Neoverse N1,
// where panels make products 1.3 times as fast.
constexpr std::int64_t kPanel = 1 << 14;

template <class Selector>
struct Operands {
  const gnn::Product& p;
  const gnn::ProductCall& call;

  [[nodiscard]] HWY_INLINE const float* Values(std::int64_t row) const { return call.values + row * p.k; }
  [[nodiscard]] HWY_INLINE const Selector* Selectors(std::int64_t row) const {
    return static_cast<const Selector*>(call.selectors) + row * p.k;
  }
  [[nodiscard]] HWY_INLINE bool Exists(std::int64_t column) const { return column < p.cols; }

  /// Calls f(row, column, value) for every element of the part's rows.
  template <class F>
  HWY_INLINE void ForEach(const ProductPart& part, F&& f) const {
    for (std::int64_t row = part.first_row; row < part.last_row; ++row) {
      for (std::int64_t j = 0; j < p.k; ++j) {
        const std::int64_t column = Selectors(row)[j];
        if (Exists(column)) f(row, column, Values(row)[j]);
      }
    }
  }
};

/// Calls f for the columns in blocks of as many vectors as possible. Returns the first column of the remainder.
template <class F>
HWY_INLINE std::int64_t ForBlocks(std::int64_t begin, std::int64_t end, F&& f) {
  std::int64_t col = begin;
  for (; col + kVectors * kLanes <= end; col += kVectors * kLanes) f(col, std::integral_constant<int, kVectors>{});
  for (; col + 4 * kLanes <= end; col += 4 * kLanes) f(col, std::integral_constant<int, 4>{});
  for (; col + kLanes <= end; col += kLanes) f(col, std::integral_constant<int, 1>{});
  return col;
}

/// Columns [col, col + count) of W: the first element and the distance between rows.
struct Panel {
  const float* first;
  std::int64_t stride;
};

/// Copies these columns to `panel` if that costs at most an eighth of the product's time. Otherwise reads W in place.
template <class Selector>
HWY_INLINE Panel PanelOf(const Operands<Selector>& x, const ProductPart& part, std::int64_t col, std::int64_t count,
                         float* panel) {
  const float* from = x.call.matrix + col;
  const bool copied =
      x.p.cols * count <= kPanel && count < x.p.width && (part.last_row - part.first_row) * x.p.k >= 8 * x.p.cols;
  if (!copied) return {from, x.p.width};
  for (std::int64_t row = 0; row < x.p.cols; ++row) std::copy_n(from + row * x.p.width, count, panel + row * count);
  return {panel, count};
}

/// Y += X W for columns [col, col + kCount vectors) of these rows.
template <int kCount, class Selector>
HWY_INLINE void MultiplyBlock(const Operands<Selector>& x, const ProductPart& part, std::int64_t col, float* panel) {
  const D d;
  const Panel matrix = PanelOf(x, part, col, kCount * kLanes, panel);
  for (std::int64_t row = part.first_row; row < part.last_row; ++row) {
    float* y = x.call.result + row * x.p.width + col;
    const float* values = x.Values(row);
    const Selector* selectors = x.Selectors(row);
    V sums[kCount];
    for (int i = 0; i < kCount; ++i) sums[i] = hn::LoadU(d, y + i * kLanes);
    for (std::int64_t j = 0; j < x.p.k; ++j) {
      if (!x.Exists(selectors[j])) continue;
      const V value = hn::Set(d, values[j]);
      const float* w = matrix.first + selectors[j] * matrix.stride;
      for (int i = 0; i < kCount; ++i) sums[i] = hn::MulAdd(value, hn::LoadU(d, w + i * kLanes), sums[i]);
    }
    for (int i = 0; i < kCount; ++i) hn::StoreU(sums[i], d, y + i * kLanes);
  }
}

template <class Selector>
void AddProduct(const Operands<Selector>& x, const ProductPart& part) {
  alignas(64) float panel[kPanel];
  const std::int64_t rest = ForBlocks(part.first_col, part.last_col, [&](std::int64_t col, auto count) HWY_ATTR {
    MultiplyBlock<decltype(count)::value>(x, part, col, panel);
  });
  if (rest == part.last_col) return;
  x.ForEach(part, [&](std::int64_t row, std::int64_t column, float value) HWY_ATTR {
    for (std::int64_t col = rest; col < part.last_col; ++col) {
      x.call.result[row * x.p.width + col] += value * x.call.matrix[column * x.p.width + col];
    }
  });
}

/// Products of kCount rows of W with a row of dY.
template <int kCount>
HWY_INLINE void Dots(const float* gradient, const float* const (&w)[kCount], std::int64_t width, float* to) {
  const D d;
  V even[kCount];
  V odd[kCount];
  for (int i = 0; i < kCount; ++i) even[i] = odd[i] = hn::Zero(d);
  std::int64_t col = 0;
  for (; col + 2 * kLanes <= width; col += 2 * kLanes) {
    const V first = hn::LoadU(d, gradient + col);
    const V second = hn::LoadU(d, gradient + col + kLanes);
    for (int i = 0; i < kCount; ++i) {
      even[i] = hn::MulAdd(first, hn::LoadU(d, w[i] + col), even[i]);
      odd[i] = hn::MulAdd(second, hn::LoadU(d, w[i] + col + kLanes), odd[i]);
    }
  }
  for (int i = 0; i < kCount; ++i) to[i] = hn::GetLane(hn::SumOfLanes(d, hn::Add(even[i], odd[i])));
  for (; col < width; ++col) {
    for (int i = 0; i < kCount; ++i) to[i] += gradient[col] * w[i][col];
  }
}

template <class Selector>
void GradientOfValues(const Operands<Selector>& x, const ProductPart& part) {
  constexpr int kAtOnce = 4;
  for (std::int64_t row = part.first_row; row < part.last_row; ++row) {
    const Selector* selectors = x.Selectors(row);
    const float* gradient = x.call.gradient + row * x.p.width;
    float* to = x.call.result + row * x.p.k;
    // For a selector >= cols, read row 0 instead; zero is written below.
    const auto row_of = [&](std::int64_t j) HWY_ATTR {
      return x.call.matrix + (x.Exists(selectors[j]) ? selectors[j] * x.p.width : 0);
    };
    std::int64_t j = 0;
    for (; j + kAtOnce <= x.p.k; j += kAtOnce) {
      const float* const w[kAtOnce] = {row_of(j), row_of(j + 1), row_of(j + 2), row_of(j + 3)};
      Dots(gradient, w, x.p.width, to + j);
    }
    for (; j < x.p.k; ++j) {
      const float* const w[1] = {row_of(j)};
      Dots(gradient, w, x.p.width, to + j);
    }
    for (j = 0; j < x.p.k; ++j) {
      if (!x.Exists(selectors[j])) to[j] = 0.0f;
    }
  }
}

/// X^T dY for columns [col, col + kCount vectors) over all rows. Sums are in `panel` if they fit.
template <int kCount, class Selector>
HWY_INLINE void AddOuterBlock(const Operands<Selector>& x, const ProductPart& part, std::int64_t col, float* panel) {
  const D d;
  constexpr std::int64_t kCols = kCount * kLanes;
  const bool in_panel = x.p.cols * kCols <= kPanel && kCols < x.p.width;
  float* const sums = in_panel ? panel : x.call.result + col;
  const std::int64_t stride = in_panel ? kCols : x.p.width;
  if (in_panel) std::fill_n(panel, x.p.cols * kCols, 0.0f);
  for (std::int64_t row = part.first_row; row < part.last_row; ++row) {
    const float* from = x.call.gradient + row * x.p.width + col;
    const float* values = x.Values(row);
    const Selector* selectors = x.Selectors(row);
    V gradient[kCount];
    for (int i = 0; i < kCount; ++i) gradient[i] = hn::LoadU(d, from + i * kLanes);
    for (std::int64_t j = 0; j < x.p.k; ++j) {
      if (!x.Exists(selectors[j])) continue;
      const V value = hn::Set(d, values[j]);
      float* to = sums + selectors[j] * stride;
      for (int i = 0; i < kCount; ++i) {
        hn::StoreU(hn::MulAdd(value, gradient[i], hn::LoadU(d, to + i * kLanes)), d, to + i * kLanes);
      }
    }
  }
  if (!in_panel) return;
  for (std::int64_t row = 0; row < x.p.cols; ++row) {
    std::copy_n(panel + row * kCols, kCols, x.call.result + row * x.p.width + col);
  }
}

template <class Selector>
void GradientOfMatrix(const Operands<Selector>& x, const ProductPart& part) {
  alignas(64) float panel[kPanel];
  for (std::int64_t column = 0; column < x.p.cols; ++column) {
    std::fill(x.call.result + column * x.p.width + part.first_col, x.call.result + column * x.p.width + part.last_col,
              0.0f);
  }
  const std::int64_t rest = ForBlocks(part.first_col, part.last_col, [&](std::int64_t col, auto count) HWY_ATTR {
    AddOuterBlock<decltype(count)::value>(x, part, col, panel);
  });
  if (rest == part.last_col) return;
  x.ForEach(part, [&](std::int64_t row, std::int64_t column, float value) HWY_ATTR {
    for (std::int64_t col = rest; col < part.last_col; ++col) {
      x.call.result[column * x.p.width + col] += value * x.call.gradient[row * x.p.width + col];
    }
  });
}

template <class Selector>
void MultiplyWith(const gnn::Product& problem, const gnn::ProductCall& call, const ProductPart& part) {
  const Operands<Selector> x{problem, call};
  switch (problem.term) {
    case gnn::ProductTerm::product: return AddProduct(x, part);
    case gnn::ProductTerm::values_gradient: return GradientOfValues(x, part);
    case gnn::ProductTerm::matrix_gradient: return GradientOfMatrix(x, part);
  }
}

}  // namespace

void Multiply(const gnn::Product& problem, const gnn::ProductCall& call, const ProductPart& part) {
  if (problem.selector_type == IndexType::u8) return MultiplyWith<std::uint8_t>(problem, call, part);
  MultiplyWith<std::uint16_t>(problem, call, part);
}

}  // namespace rtopk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtopk::cpu {

HWY_EXPORT(Multiply);

void multiply(const gnn::Product& problem, const gnn::ProductCall& call, const ProductPart& part) noexcept {
  if (!has_simd()) return multiply_scalar(problem, call, part);
  HWY_DYNAMIC_DISPATCH(Multiply)(problem, call, part);
}

}  // namespace rtopk::cpu
#endif
