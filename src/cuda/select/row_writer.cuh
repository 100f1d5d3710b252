// Writes the selected elements of a long row in index order, in every form. A block walks over a part of the row, each
// warp over its share of a tile. Warps exchange only counts, once for each tile.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/select/arguments.hpp"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/element.cuh"
#include "cuda/select/result_row.cuh"
#include "cuda/select/row_vectors.cuh"
#include "plan/select/tuning_long_rows.hpp"

namespace rtopk::cuda {

/// Which elements of a row are selected, by directed key: all at or above `sure`, if has_sure, and in index order the
/// first `quota` of the others at or above `fill`.
template <class Key>
struct Threshold {
  Key fill;
  Key sure;
  bool has_sure;
  std::int64_t quota;

  /// All above `key`, and the first `quota` of those equal to it.
  static __device__ Threshold with_ties(Key key, std::int64_t quota) {
    const Key next = static_cast<Key>(key + 1);
    return {key, next, next != 0, quota};
  }
  /// The first `quota` of those at or above `key`.
  static __device__ Threshold first_at_least(Key key, std::int64_t quota) { return {key, 0, false, quota}; }
};

/// Shared memory of a RowWriter.
struct RowWriterShared {
  std::uint32_t (*totals)[32];  ///< Two for each warp.
  std::uint16_t* lists;         ///< WriterConfig::shared_bytes.
};

template <class T, class Row = RowVectors<T>>
class RowWriter {
 public:
  using Config = WriterConfig<T>;
  using Key = core::KeyOf<T>;

  __device__ RowWriter(const SelectArguments& args, std::int64_t number, const Row& row, const Threshold<Key>& kth,
                       RowWriterShared shared)
      : args_(args), number_(number), row_(row), kth_(kth), shared_(shared) {}

  /// Writes the part of the row in the vectors [begin, end). `sure_before` and `fill_before`: elements before the part
  /// that are at or above `sure`, and those that compete for the quota. All threads of the block call this.
  __device__ void write(std::int64_t begin, std::int64_t end, std::int64_t sure_before, std::int64_t fill_before) {
    const bool lists = args_.form == Form::pairs || args_.form == Form::cbsr;
    const int tile = static_cast<int>(blockDim.x) * Config::kLoads;
    int turn = 0;
    __syncthreads();  // previous users of the shared memory are done
#pragma unroll 1
    for (std::int64_t first = begin; first < end; first += tile) {
      // Invariant: sure_before and fill_before count the elements before `first`.
      if (lists && sure_before + min(fill_before, kth_.quota) >= args_.k) break;  // the same for all threads
      const std::int64_t mine = first + warp_number() * (32 * Config::kLoads);
      const bool whole = first + tile <= end && row_.are_whole(first, first + tile);
      const auto loaded = whole ? row_.template load<true, Config::kLoads>(mine + lane_number(), 32, end)
                                : row_.template load<false, Config::kLoads>(mine + lane_number(), 32, end);
      std::uint32_t sure = 0;
      std::uint32_t fill = 0;
#pragma unroll
      for (int l = 0; l < Config::kLoads; ++l) {
#pragma unroll
        for (int j = 0; j < Config::kVector; ++j) {
          const Key key = directed_key(row_.comparable(loaded.vector[l].raw[j]), args_.smallest);
          const std::uint32_t bit = 1u << (l * Config::kVector + j);
          if (key >= kth_.fill) fill |= bit;
          if (kth_.has_sure && key >= kth_.sure) sure |= bit;
        }
      }
      sure &= loaded.valid;
      fill &= loaded.valid & ~sure;

      // Both counts in one word: a tile has at most 2^15 elements.
      const std::uint32_t counted = static_cast<std::uint32_t>(__popc(sure)) | static_cast<std::uint32_t>(__popc(fill))
                                                                                   << 16;
      const std::uint32_t total = __reduce_add_sync(kFullWarp, counted);
      // Each warp has two words and alternates between them, so that one barrier per tile is enough.
      if (lane_number() == 0) shared_.totals[turn][warp_number()] = total;
      __syncthreads();
      const std::uint32_t other = lane_number() < warps_of_block() ? shared_.totals[turn][lane_number()] : 0;
      const std::uint32_t before = __reduce_add_sync(kFullWarp, lane_number() < warp_number() ? other : 0u);
      const std::uint32_t all = __reduce_add_sync(kFullWarp, other);
      turn ^= 1;

      const std::int64_t warp_sure_before = sure_before + (before & 0xffffu);
      const std::int64_t warp_fill_before = fill_before + (before >> 16);
      const std::int64_t places = kth_.quota - warp_fill_before;
      std::uint32_t chosen = sure;
      if (places > 0 && (total >> 16) != 0) {
        chosen |= places >= static_cast<std::int64_t>(total >> 16) ? fill : first_of(fill, static_cast<int>(places));
      }
      if (lists) {
        write_list(mine, chosen, warp_sure_before + min(warp_fill_before, kth_.quota));
      } else if (args_.form == Form::dense) {
        write_dense(mine, chosen, loaded);
      } else {
        write_mask(mine, chosen, loaded.valid);
      }
      sure_before += all & 0xffffu;
      fill_before += all >> 16;
    }
  }

 private:
  // The counts of a thread's loads, packed in one word. Elements are ordered by load, then by lane.
  using Packed = std::uint32_t;
  static_assert(Config::kLoads == 2);
  static constexpr std::uint32_t kLoadBits = (1u << Config::kVector) - 1u;

  struct Positions {
    int first[Config::kLoads];  ///< Of this lane's first element of a load.
    int total;
  };

  static __device__ Positions positions(std::uint32_t bits) {
    Packed counted = 0;
#pragma unroll
    for (int l = 0; l < Config::kLoads; ++l) {
      counted |= static_cast<Packed>(__popc(bits >> (l * Config::kVector) & kLoadBits)) << (16 * l);
    }
    Packed inclusive = counted;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const Packed below = __shfl_up_sync(kFullWarp, inclusive, distance);
      if (lane_number() >= distance) inclusive += below;
    }
    const Packed totals = __shfl_sync(kFullWarp, inclusive, 31);
    const Packed before = inclusive - counted;
    Positions result;
    int base = 0;
#pragma unroll
    for (int l = 0; l < Config::kLoads; ++l) {
      result.first[l] = base + static_cast<int>(before >> (16 * l) & 0xffffu);
      base += static_cast<int>(totals >> (16 * l) & 0xffffu);
    }
    result.total = base;
    return result;
  }

  /// The first `places` of the warp's elements in `bits`.
  static __device__ std::uint32_t first_of(std::uint32_t bits, int places) {
    const Positions at = positions(bits);
    std::uint32_t taken = 0;
#pragma unroll
    for (int l = 0; l < Config::kLoads; ++l) {
      int position = at.first[l];
#pragma unroll
      for (int j = 0; j < Config::kVector; ++j) {
        const std::uint32_t bit = 1u << (l * Config::kVector + j);
        if ((bits & bit) != 0) {
          if (position < places) taken |= bit;
          ++position;
        }
      }
    }
    return taken;
  }

  /// Goes through shared memory, so that neighbouring lanes write neighbouring results.
  __device__ void write_list(std::int64_t first_vector, std::uint32_t chosen, std::int64_t first_result) {
    if (!__any_sync(kFullWarp, chosen != 0)) return;
    const Positions at = positions(chosen);
    std::uint16_t* list = shared_.lists + warp_number() * Config::kWarpTile;
#pragma unroll
    for (int l = 0; l < Config::kLoads; ++l) {
      std::uint16_t* next = list + at.first[l];
#pragma unroll
      for (int j = 0; j < Config::kVector; ++j) {
        if ((chosen >> (l * Config::kVector + j) & 1u) != 0) {
          *next++ = static_cast<std::uint16_t>((l * 32 + lane_number()) * Config::kVector + j);
        }
      }
    }
    __syncwarp();
    const ResultRow<T> result(args_, number_);
    const std::int64_t first_column = row_.column(first_vector);
#pragma unroll 1
    for (int i = lane_number(); i < at.total; i += 32) {
      const std::int64_t column = first_column + list[i];
      result.write(first_result + i, row_.elements()[column], column);
    }
    __syncwarp();
  }

  __device__ void write_dense(std::int64_t first_vector, std::uint32_t chosen,
                              const Load<T, Config::kLoads>& loaded) const {
    T* to = static_cast<T*>(args_.dense) + number_ * args_.cols;
#pragma unroll
    for (int l = 0; l < Config::kLoads; ++l) {
      Vector<T> out = loaded.vector[l];
#pragma unroll
      for (int j = 0; j < Config::kVector; ++j) {
        if ((chosen >> (l * Config::kVector + j) & 1u) == 0) out.raw[j] = T{};
      }
      const std::uint32_t valid = loaded.valid >> (l * Config::kVector) & kLoadBits;
      const std::int64_t column = row_.column(first_vector + l * 32 + lane_number());
      if (valid == kLoadBits && reinterpret_cast<std::uintptr_t>(to + column) % 16 == 0) {
        *reinterpret_cast<uint4*>(to + column) = out.bits;
      } else {
#pragma unroll
        for (int j = 0; j < Config::kVector; ++j) {
          if ((valid >> j & 1u) != 0) to[column + j] = out.raw[j];
        }
      }
    }
  }

  __device__ void write_mask(std::int64_t first_vector, std::uint32_t chosen, std::uint32_t valid_bits) const {
    using Word = std::conditional_t<Config::kVector == 8, std::uint64_t,
                                    std::conditional_t<Config::kVector == 4, std::uint32_t, std::uint16_t>>;
    std::uint8_t* to = args_.mask + number_ * args_.cols;
#pragma unroll 1
    for (int l = 0; l < Config::kLoads; ++l) {
      const std::uint32_t bits = chosen >> (l * Config::kVector) & kLoadBits;
      const std::uint32_t valid = valid_bits >> (l * Config::kVector) & kLoadBits;
      const std::int64_t column = row_.column(first_vector + l * 32 + lane_number());
      if (valid == kLoadBits && reinterpret_cast<std::uintptr_t>(to + column) % sizeof(Word) == 0) {
        Word word = 0;
#pragma unroll
        for (int j = 0; j < Config::kVector; ++j)
          word |= static_cast<Word>(static_cast<Word>(bits >> j & 1u) << (8 * j));
        *reinterpret_cast<Word*>(to + column) = word;
      } else {
#pragma unroll
        for (int j = 0; j < Config::kVector; ++j) {
          if ((valid >> j & 1u) != 0) to[column + j] = static_cast<std::uint8_t>(bits >> j & 1u);
        }
      }
    }
  }

  const SelectArguments& args_;
  std::int64_t number_;
  const Row& row_;
  Threshold<Key> kth_;
  RowWriterShared shared_;
};

}  // namespace rtopk::cuda
