// Rows that are hard to select from, for `rtopk soak`.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <rtopk/types.hpp>

namespace rtopk::tool {

enum class RowKind : std::uint8_t {
  normal,        ///< Mean 0, deviation 1.
  own_scale,     ///< Normal, every row with a mean and a deviation of its own.
  two_humps,     ///< Normal around one of two distant means.
  softmax,       ///< Positive, adding up to 1, few of them large.
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

/// Makes rows of one length and type. One per thread: it owns its scratch memory.
class RowMaker {
 public:
  RowMaker(DType dtype, std::int64_t cols, std::int64_t k, std::uint64_t seed);

  /// Writes row `row`, which depends on the seed and `row` alone. In i32, the extremes stand for infinities and NaN.
  void make(RowKind kind, std::int64_t row, void* out);

 private:
  void make_numbers(RowKind kind, std::uint64_t seed);

  DType dtype_;
  std::int64_t k_;
  std::uint64_t seed_;
  std::vector<double> numbers_;
};

/// Writes elements that a selection in this direction always takes. Where nothing may be read, they reveal reads.
void write_bait(DType dtype, Direction direction, std::int64_t count, void* out);

}  // namespace rtopk::tool
