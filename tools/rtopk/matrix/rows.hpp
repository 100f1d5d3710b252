// Rows that are hard to select from, for `rtopk soak` and `rtopk bench`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <rtopk/types.hpp>

#include "system/thread_pool.hpp"

namespace rtopk::tool {

enum class RowKind : std::uint8_t {
  normal,        ///< Mean 0, deviation 1.
  own_scale,     ///< Normal, every row with a mean and a deviation of its own.
  two_humps,     ///< Normal around one of two distant means.
  softmax,       ///< The softmax of normal numbers of deviation 4: few of them large.
  sparse,        ///< Nearly all zero, of either sign.
  ties,          ///< A few different values.
  constant,      ///< One value.
  at_threshold,  ///< About k elements above a value that all others have.
  ascending,     ///< Each element greater than the one before; `descending` is the reverse.
  descending,
  narrow,      ///< In [1, 1 + 2^-10): equal leading bits.
  infinities,  ///< Normal, with infinities of both signs.
  nans,        ///< Normal, with NaN of both signs.
  any_bits,    ///< Random bits: denormals, NaN with payloads, extremes.
  mixed,       ///< Each row of a kind of its own.
};
inline constexpr auto row_kinds =
    std::to_array({RowKind::normal, RowKind::own_scale, RowKind::two_humps, RowKind::softmax, RowKind::sparse,
                   RowKind::ties, RowKind::constant, RowKind::at_threshold, RowKind::ascending, RowKind::descending,
                   RowKind::narrow, RowKind::infinities, RowKind::nans, RowKind::any_bits, RowKind::mixed});

[[nodiscard]] const char* name(RowKind kind) noexcept;

/// The rows of a matrix.
struct RowSpec {
  DType dtype = DType::f32;
  std::int64_t cols = 0;
  std::int64_t k = 0;  ///< For at_threshold.
  RowKind kind = RowKind::normal;
  std::uint64_t seed = 0;
};

/// Writes rows [first, first + count) without gaps, with every thread of the pool. A row depends on the spec and its
/// number alone. In i32, the extremes stand for infinities and NaN.
void make_rows(const RowSpec& spec, std::int64_t first, std::int64_t count, std::byte* out, ThreadPool& pool);

/// Writes elements that a selection in this direction always takes. Where nothing may be read, they reveal reads.
void write_bait(DType dtype, Direction direction, std::int64_t count, void* out);

}  // namespace rtopk::tool
