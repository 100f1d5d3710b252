// Turns general rows into calls of the families:
//
//   full rows       neighbours that need no change of their results but the map: one call for all of them, with their
//                   thresholds
//   short rows      copied side by side, filled up to a common width with elements that lose, and sorted by cpu_lanes
//   other rows      one call for neighbours of the same length
//
// Of the others, the families say which places of a row are selected; everything else is written here.
#include "cpu/select/general_rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "core/keys.hpp"
#include "core/placement.hpp"
#include "core/rows.hpp"
#include "cpu/select/places.hpp"
#include "cpu/select/scratch.hpp"
#include "cpu/select/simd_rows.hpp"
#include "plan/select/cpu.hpp"

namespace rtopk::cpu {
namespace {

/// Elements of a tile of short rows. Its sorting network is made anew for every tile: up to 3 us, against at least 2 ns
/// an element to sort.
constexpr std::int64_t kTileElements = 4096;
/// Elements of neighbouring rows of the same length that are selected from at once: a row learns from the one before.
constexpr std::int64_t kElementsAtOnce = 32768;
/// Widths of tiles are powers of two. Narrower ones would gain nothing: most of the time goes to writing results.
constexpr std::int64_t kMinTileWidth = 8;
constexpr int kWidths = std::bit_width(static_cast<std::uint64_t>(kMaxLanesColumns / kMinTileWidth));

template <class T>
class GeneralRows {
 public:
  /// `measures`: only the size of the scratch memory is wanted.
  GeneralRows(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output, Scratch& scratch,
              bool measures)
      : plan_(plan),
        problem_(plan.problem),
        map_(core::whole_map(problem_)),
        arrays_(arrays),
        output_(output),
        input_(static_cast<const T*>(input)),
        is_flat_(core::is_flat(problem_)) {
    std::int64_t places = std::max(problem_.k, kElementsAtOnce);
    std::size_t bytes = 0;
    if (measures) {
      bytes = std::max({scratch_for_rows(plan_.family), scratch_for_rows(Family::cpu_row),
                        simd_scratch_bytes(full_plan(problem_.rows))});
    }
    const auto width_of_longest = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(problem_.cols)));
    for (int i = 0; i < kWidths; ++i) {
      Tile& tile = tiles_[static_cast<std::size_t>(i)];
      tile.width = kMinTileWidth << i;
      if (tile.width > std::max(width_of_longest, kMinTileWidth) || core::bisects(problem_)) break;
      tile.plan = plan_;
      tile.plan.family = Family::cpu_lanes;
      tile.plan.problem = places_of(problem_, kTileElements / tile.width, tile.width, std::min(problem_.k, tile.width));
      tile.plan.problem.passes = false;
      // Of the K best in order, the first ones are the best of rows with a smaller k.
      if (core::exists(problem_.ragged.k)) tile.plan.problem.order = Order::by_value;
      if (!sorts_in_lanes(tile.plan.problem, simd_vector_bytes())) break;
      tile.elements = scratch.take<Bits>(kTileElements);
      tile.numbers = scratch.take<std::int64_t>(tile.plan.problem.rows);
      tile.used = true;
      places = std::max(places, tile.plan.problem.rows * tile.plan.problem.k);
      if (measures) bytes = std::max(bytes, simd_scratch_bytes(tile.plan));
    }
    places_ = scratch.take<std::int64_t>(places);
    families_ = scratch.take<std::byte>(static_cast<std::int64_t>(std::min(bytes, core::kMaxBytes)));  // the last part
  }

  void select(std::int64_t begin, std::int64_t end) {
    for (std::int64_t number = begin; number < end;) {
      const core::RowShape shape = shape_of(number);
      if (const std::int64_t count = full_rows(number, end, shape); count > 0) {
        select_full(number, count, shape);
        number += count;
        continue;
      }
      const std::int64_t count = add_to_tile(number, shape) ? 1 : select_alike(number, end, shape);
      number += count;
    }
    for (Tile& tile : tiles_) select_tile(tile);
  }

 private:
  using Bits = core::KeyOf<T>;

  /// Short rows, to be sorted at once.
  struct Tile {
    bool used = false;
    std::int64_t width = 0;
    std::int64_t count = 0;
    Plan plan;
    Bits* elements = nullptr;
    std::int64_t* numbers = nullptr;  ///< Of its rows.
  };

  /// Scratch of a family for rows of any length with any k. Sorting by value has two ways, for small k and for greater, and
  /// rows by magnitude are copied up to some length.
  std::size_t scratch_for_rows(Family family) const {
    Plan plan = plan_;
    plan.family = family;
    std::size_t bytes = 0;
    for (const std::int64_t cols : {problem_.cols, kCopiedBytes / static_cast<std::int64_t>(sizeof(T))}) {
      for (const std::int64_t k : {problem_.k, kMaxRankedOf16Bits, kMaxRanked}) {
        plan.problem = places_of(problem_, 1, std::min(cols, problem_.cols), std::min({k, cols, problem_.k}));
        bytes = std::max(bytes, simd_scratch_bytes(plan));
      }
    }
    return bytes;
  }

  [[nodiscard]] core::RowShape shape_of(std::int64_t number) const {
    return core::row_shape(problem_.ragged, arrays_, problem_.cols, problem_.k, number);
  }

  /// The first element of a row.
  [[nodiscard]] const T* elements_of(std::int64_t number, const core::RowShape& shape) const {
    return input_ + (is_flat_ ? 0 : core::row_start(problem_, number)) + shape.start;
  }

  /// How many rows from `number` on are as long as rows can be, with all of k, one after the other; 0 if their results
  /// are not those of a matrix.
  std::int64_t full_rows(std::int64_t number, std::int64_t end, core::RowShape shape) const {
    if (!core::is_ragged(problem_)) return end - number;
    const std::int64_t first = shape.start;
    const std::int64_t step = is_flat_ ? problem_.cols : 0;
    std::int64_t count = 0;
    while (shape.length == problem_.cols && shape.k == problem_.k && shape.start == first + count * step) {
      ++count;
      if (number + count == end) break;
      shape = shape_of(number + count);
    }
    return count;
  }

  /// For full rows: `rows` segments side by side, or rows of the matrix.
  Plan full_plan(std::int64_t rows) const {
    Plan plan = plan_;
    if (is_flat_) plan.problem.rows = rows;
    plan.problem.ragged = {};
    plan.problem.index_map = {};
    return plan;
  }

  void select_full(std::int64_t number, std::int64_t count, const core::RowShape& shape) {
    const Plan plan = full_plan(count);
    if (is_flat_) {
      simd_rows(plan, input_ + shape.start, results_from(number), 0, count, families_);
    } else {
      simd_rows(plan, input_, output_, number, number + count, families_);
    }
    const bool columns = map_.kind == IndexKind::column && !is_flat_;
    if (!core::writes_indices(problem_) || columns) return;
    with_index_type([&]<class Index>(Index*) {
      auto* indices = static_cast<Index*>(output_.indices) + number * problem_.k;
      for (std::int64_t row = 0; row < count; ++row, indices += problem_.k) {
        const std::int64_t start = is_flat_ ? shape.start + row * problem_.cols : 0;
        const auto map = core::RowMap::of(map_, arrays_, is_flat_, number + row);
        for (std::int64_t i = 0; i < problem_.k; ++i) {
          const auto place = static_cast<std::int64_t>(indices[i]);
          indices[i] = static_cast<Index>(map.index(start, place));
        }
      }
    });
  }

  /// The results of segments from `number` on.
  [[nodiscard]] Output results_from(std::int64_t number) const {
    const auto at = [](auto* array, std::int64_t bytes) -> decltype(array) {
      if (array == nullptr) return nullptr;
      return reinterpret_cast<decltype(array)>(reinterpret_cast<std::byte*>(array) + bytes);
    };
    constexpr auto size = static_cast<std::int64_t>(sizeof(T));
    const auto index_size = static_cast<std::int64_t>(size_of(problem_.index_type));
    return {.values = at(output_.values, number * problem_.k * size),
            .indices = at(output_.indices, number * problem_.k * index_size),
            .passes = at(output_.passes, number * 4),
            .thresholds = at(output_.thresholds, number * size)};
  }

  /// True if all elements are selected, and no order has to be made.
  [[nodiscard]] bool takes_all(const core::RowShape& shape) const {
    const bool in_order = problem_.order != Order::by_value || shape.k <= 1;
    return shape.k == 0 || (shape.k == shape.length && in_order && !problem_.passes);
  }

  /// How many rows from `number` on, up to `most`, have this shape and lie one after the other.
  std::int64_t rows_alike(std::int64_t number, std::int64_t most, const core::RowShape& shape) const {
    const std::int64_t step = is_flat_ ? shape.length : 0;
    std::int64_t count = 1;
    for (; count < most; ++count) {
      const core::RowShape next = shape_of(number + count);
      if (next.length != shape.length || next.k != shape.k || next.start != shape.start + count * step) break;
    }
    return count;
  }

  /// Selects from the row and from those behind it that are like it. Returns their number.
  std::int64_t select_alike(std::int64_t number, std::int64_t end, const core::RowShape& shape) {
    const T* const elements = elements_of(number, shape);
    if (takes_all(shape)) {
      if (problem_.passes) output_.passes[number] = 0;
      std::iota(places_, places_ + shape.k, std::int64_t{0});
      write(number, shape, elements, places_);
      return 1;
    }
    const std::int64_t at_once = std::max<std::int64_t>(kElementsAtOnce / shape.length, 1);
    const std::int64_t of_group = core::rows_to_end_of_group(problem_, number);
    const std::int64_t count = rows_alike(number, std::min({at_once, of_group, end - number}), shape);
    Plan plan = plan_;
    plan.problem = places_of(problem_, count, shape.length, shape.k);
    plan.family = family_of_row(plan_.family, plan.problem, simd_vector_bytes());
    if (!is_flat_) plan.problem.row_stride = core::stride_of(problem_);
    const auto shape_at = [&](std::int64_t i) {
      core::RowShape own = shape;
      own.start += is_flat_ ? i * shape.length : 0;
      return own;
    };
    std::int32_t* const passes = problem_.passes ? output_.passes + number : nullptr;
    simd_rows(plan, elements, Output{.indices = places_, .passes = passes}, 0, count, families_);
    for (std::int64_t i = 0; i < count; ++i) {
      core::RowShape own = shape_at(i);
      own.is_short = shape_of(number + i).is_short;  // rows with the same number of results may want more
      write(number + i, own, elements_of(number + i, own), places_ + i * shape.k);
    }
    return count;
  }

  /// False if the row is not for a tile.
  bool add_to_tile(std::int64_t number, const core::RowShape& shape) {
    if (shape.length > kMaxLanesColumns || takes_all(shape)) return false;
    const auto wide = static_cast<std::uint64_t>(std::max(shape.length, kMinTileWidth) - 1) / kMinTileWidth;
    Tile& tile = tiles_[static_cast<std::size_t>(std::bit_width(wide))];
    if (!tile.used) return false;
    Bits* const row = tile.elements + tile.count * tile.width;
    std::memcpy(row, elements_of(number, shape), static_cast<std::size_t>(shape.length) * sizeof(T));
    const bool smallest = problem_.direction == Direction::smallest;
    std::fill(row + shape.length, row + tile.width, core::losing_bits<T>(smallest, problem_.magnitude));
    tile.numbers[tile.count++] = number;
    if (tile.count == tile.plan.problem.rows) select_tile(tile);
    return true;
  }

  void select_tile(Tile& tile) {
    if (tile.count == 0) return;
    const std::int64_t k = tile.plan.problem.k;
    Plan plan = tile.plan;
    plan.problem.rows = tile.count;
    simd_rows(plan, tile.elements, Output{.indices = places_}, 0, tile.count, families_);
    for (std::int64_t i = 0; i < tile.count; ++i) {
      const std::int64_t number = tile.numbers[i];
      const core::RowShape shape = shape_of(number);
      // What fills a row up comes behind all of its elements, also among equal ones.
      std::int64_t* const places = places_ + i * k;
      if (plan.problem.order == Order::by_value && problem_.order != Order::by_value) {
        std::sort(places, places + shape.k);
      }
      if (problem_.passes) output_.passes[number] = 1;
      write(number, shape, elements_of(number, shape), places);
    }
    tile.count = 0;
  }

  /// Writes the results of a row, whose selected places are in the order of the results.
  void write(std::int64_t number, const core::RowShape& shape, const T* elements, const std::int64_t* places) const {
    const auto bits_at = [&](std::int64_t place) { return core::bits_of(elements[place]); };
    if (problem_.form == Form::dense) {
      Bits* const dense = static_cast<Bits*>(output_.dense) + number * problem_.cols;
      std::fill_n(dense, problem_.cols, Bits{});
      for (std::int64_t i = 0; i < shape.k; ++i) dense[shape.start + places[i]] = bits_at(places[i]);
      return;
    }
    if (problem_.form == Form::mask) {
      std::uint8_t* const mask = output_.mask + number * problem_.cols;
      std::fill_n(mask, problem_.cols, std::uint8_t{});
      for (std::int64_t i = 0; i < shape.k; ++i) mask[shape.start + places[i]] = 1;
      return;
    }
    const std::int64_t first = number * problem_.k;
    const Bits losing = core::losing_bits<T>(problem_.direction == Direction::smallest, problem_.magnitude);
    if (core::writes_values(problem_)) {
      Bits* const values = static_cast<Bits*>(output_.values) + first;
      for (std::int64_t i = 0; i < shape.k; ++i) values[i] = bits_at(places[i]);
      std::fill(values + shape.k, values + problem_.k, losing);
    }
    if (core::writes_indices(problem_)) {
      with_index_type([&]<class Index>(Index*) {
        auto* const indices = static_cast<Index*>(output_.indices) + first;
        const auto map = core::RowMap::of(map_, arrays_, is_flat_, number);
        for (std::int64_t i = 0; i < shape.k; ++i) {
          indices[i] = static_cast<Index>(map.index(shape.start, places[i]));
        }
        std::fill(indices + shape.k, indices + problem_.k, static_cast<Index>(-1));
      });
    }
    if (problem_.thresholds) {
      static_cast<Bits*>(output_.thresholds)[number] =
          shape.is_short ? losing : bits_at(worst(shape, elements, places));
    }
  }

  /// The place of the last result in the order by value: of the equally bad ones, the one with the highest place.
  std::int64_t worst(const core::RowShape& shape, const T* elements, const std::int64_t* places) const {
    if (problem_.order == Order::by_value) return places[shape.k - 1];
    const auto key = [&](std::int64_t place) {
      const T element = elements[place];
      const Bits plain = problem_.magnitude ? core::magnitude_key(element) : core::key_of(element);
      return problem_.direction == Direction::smallest ? static_cast<Bits>(~plain) : plain;
    };
    std::int64_t found = places[0];
    Bits least = key(found);
    for (std::int64_t i = 1; i < shape.k; ++i) {
      const Bits other = key(places[i]);
      if (other <= least) found = places[i];
      least = std::min(least, other);
    }
    return found;
  }

  template <class F>
  void with_index_type(F&& f) const {
    switch (problem_.index_type) {
      case IndexType::i32: return f(static_cast<std::int32_t*>(nullptr));
      case IndexType::i64: return f(static_cast<std::int64_t*>(nullptr));
      case IndexType::u8: return f(static_cast<std::uint8_t*>(nullptr));
      case IndexType::u16: return f(static_cast<std::uint16_t*>(nullptr));
    }
  }

  const Plan& plan_;
  const Problem& problem_;
  const IndexMap map_;
  const RowArrays& arrays_;
  const Output& output_;
  const T* input_;
  const bool is_flat_;

  std::array<Tile, kWidths> tiles_;
  std::int64_t* places_ = nullptr;
  std::byte* families_ = nullptr;  ///< Scratch memory of the families.
};

}  // namespace

std::size_t general_scratch_bytes(const Plan& plan) noexcept {
  Scratch nothing(nullptr);
  core::with_element_type(plan.problem.dtype, [&]<class T>(T*) {
    const GeneralRows<T> rows(plan, nullptr, RowArrays{}, Output{}, nothing, true);
  });
  return nothing.bytes();
}

void general_rows(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output,
                  std::int64_t begin, std::int64_t end, void* memory) noexcept {
  Scratch scratch(memory);
  core::with_element_type(plan.problem.dtype, [&]<class T>(T*) {
    GeneralRows<T>(plan, input, arrays, output, scratch, false).select(begin, end);
  });
}

}  // namespace rtopk::cpu
