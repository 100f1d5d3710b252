// General rows, for kernels that give each row a block or a cluster.
//
// Such a kernel makes arguments for a matrix that has its row alone, selects from that as from any matrix, and finishes
// the row: the rest of a short row is filled. Some kernels write results as (value, place in the row) first; then places
// become what the caller wants as indices when the row is finished.
//
// The threshold of a row is known from the key of its kth value, which most kernels find before they write. Where a key
// does not tell all bits, results are places first, and the last of them is looked for.
#pragma once

#include <cstdint>

#include "core/rows.hpp"
#include "cuda/runtime/cluster.cuh"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/element.cuh"
#include "cuda/select/key_range.cuh"
#include "cuda/select/result_row.cuh"
#include "cuda/select/row_rules.hpp"

namespace rtopk::cuda {

// Arguments have default values. Those in shared memory do without: set() writes every field.
#pragma nv_diag_suppress 20054

/// What a block knows about the threshold of its row.
enum class ThresholdIs : std::uint8_t { unwanted, unknown, known };

/// A row in shared memory: the arguments of a matrix that has this row alone, where it lies, and what its indices are.
/// `cols` and `k` are those of core::RowShape. Kept
/// small: a row that only just fits leaves hardly any shared memory.
template <class Arguments>
struct GeneralRow : Arguments {
  std::int64_t start;  ///< Of core::RowShape.
  core::RowMap map;
  mutable std::uint64_t threshold;  ///< Its bits, if they are known.
  mutable ThresholdIs threshold_is;
  mutable bool maps;  ///< Indices are mapped as they are written.
  int log_page;       ///< Of the page size; negative if it is no power of two, or large.

  /// Sets the row `number`. `kMaps`: the kernel can map indices. As soon as the elements of the row and its k are known,
  /// `known(args)` is called by the first thread: it starts to copy the row, or sets what else depends on the length. All
  /// threads of the block call this.
  template <class T, bool kMaps, class Known>
  __device__ void set(const Arguments& all, const RowRules& rules, std::int64_t number, Known&& known) {
    static_assert(sizeof(Arguments) % 4 == 0 && std::is_trivially_copyable_v<Arguments>);
    Arguments& args = *this;
    __syncthreads();  // the row before is done
    if (warp_number() == 0) {
      core::RowShape own{};
      if (lane_number() == 0) {
        own = core::row_shape(rules.ragged, rules.arrays, all.cols, all.k, number);
      } else {
        // Meanwhile.
        for (unsigned i = lane_number() - 1; i < sizeof(Arguments) / 4; i += 31) {
          reinterpret_cast<std::uint32_t*>(&args)[i] = reinterpret_cast<const std::uint32_t*>(&all)[i];
        }
      }
      __syncwarp();
      if (lane_number() == 0) {
        args.input = row_of<T>(all, rules, number, own);
        args.rows = 1;
        args.cols = own.length;
        args.k = own.k;
        known(args);
        start = own.start;
        threshold = rules.losing_bits;
        threshold_is = !rules.finishes || rules.thresholds == nullptr ? ThresholdIs::unwanted
                       : own.is_short                                 ? ThresholdIs::known
                                                                      : ThresholdIs::unknown;
        // A key by magnitude has no sign: the threshold is looked for among places, and indices are mapped after that.
        maps = kMaps && rules.finishes && !(all.magnitude && threshold_is == ThresholdIs::unknown) &&
               (own.start != 0 || rules.map.kind != IndexKind::column);
        if (all.values != nullptr) args.values = static_cast<T*>(all.values) + number * all.k;
        if (all.indices != nullptr) {
          args.indices = static_cast<char*>(all.indices) + number * all.k * index_bytes(all.index_type);
        }
        if (all.form == Form::dense) args.dense = static_cast<T*>(all.dense) + number * all.cols + own.start;
        if (all.form == Form::mask) args.mask = all.mask + number * all.cols + own.start;
        if (all.passes != nullptr) args.passes = all.passes + number;
      }
    }
    // Mostly of another warp: both may wait for memory.
    if (threadIdx.x == blockDim.x - 1) {
      // Rows begin one after the other: this one's length comes from memory while rows before it are selected from.
      constexpr int kAhead = 512;
      if (number + kAhead < all.rows) prefetch_length(rules, number + kAhead);
      map = core::RowMap::of(rules.map, rules.arrays, core::exists(rules.ragged.offsets), number);
      const auto page_size = static_cast<unsigned long long>(map.page_size);
      log_page = __popcll(page_size) == 1 && page_size <= 1u << 30 ? __ffsll(map.page_size) - 1 : -1;
    }
    __syncthreads();
    if (map.kind == IndexKind::pages) prefetch_pages();
  }

  /// Takes the directed key of the kth value, before results are written. All threads of the block call this, with a
  /// barrier before they write. The arguments are constant but for what this sets.
  template <class T>
  __device__ void found(core::KeyOf<T> kth) const {
    using Key = core::KeyOf<T>;
    // volatile, or the compiler reads it before the test of threadIdx: all threads would, while the first one writes.
    const auto& read_once = static_cast<const volatile ThresholdIs&>(threshold_is);
    if (threadIdx.x != 0 || read_once != ThresholdIs::unknown || this->magnitude) return;
    const Key key = this->smallest ? static_cast<Key>(core::max_key<T> - kth) : kth;
    if (core::is_of_one_value<T>(key)) {
      threshold = core::bits_of(core::value_of<T>(key));
      threshold_is = ThresholdIs::known;
    } else {
      maps = false;
    }
  }

  /// Places are written, and have to become indices.
  __device__ bool has_places() const { return !maps && (start != 0 || map.kind != IndexKind::column); }

 private:
  /// The first element of a row.
  template <class T>
  static __device__ const T* row_of(const SelectArguments& all, const RowRules& rules, std::int64_t number,
                                    const core::RowShape& shape) {
    const std::int64_t row = core::exists(rules.ragged.offsets) ? 0 : number * all.stride;
    return static_cast<const T*>(all.input) + row + shape.start;
  }

  /// Brings the length of a row to the L2 cache, or where its segment begins.
  static __device__ void prefetch_length(const RowRules& rules, std::int64_t row) {
    const bool is_flat = core::exists(rules.ragged.offsets);
    const ArrayType type = is_flat ? rules.ragged.offsets : rules.ragged.lengths;
    if (!core::exists(type)) return;
    const auto* array = static_cast<const char*>(is_flat ? rules.arrays.offsets : rules.arrays.lengths);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(array + row * (type == ArrayType::i64 ? 8 : 4)));
  }

  /// The row's page table will be needed at the end, at once.
  __device__ void prefetch_pages() const {
    constexpr int kLine = 128;
    const char* entries = static_cast<const char*>(map.entries);
    const std::int64_t bytes = map.pages * core::RowMap::entry_bytes(map.type);
    for (std::int64_t at = std::int64_t{kLine} * threadIdx.x; at < bytes; at += kLine * blockDim.x) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(entries + at));
    }
  }
  static __device__ int index_bytes(IndexType type) {
    return type == IndexType::i64 ? 8 : type == IndexType::i32 ? 4 : type == IndexType::u16 ? 2 : 1;
  }
};

/// The threads that finish a row: those of a block, or of a cluster.
struct FinishingThreads {
  int thread;
  int number;

  static __device__ FinishingThreads of_block() {
    return {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
  }
};

/// A result that comes last in the order of selection: the least directed key, and the last place that has it.
struct LastResult {
  unsigned long long key;
  unsigned long long place;

  [[nodiscard]] __device__ LastResult or_later(const LastResult& other) const {
    return other.key < key || (other.key == key && other.place > place) ? other : *this;
  }
};

/// The last of the results get(begin), ... before `end`: all threads of the block call this. What none can lose against
/// if there are none.
template <class Get>
__device__ LastResult last_of(std::int64_t begin, std::int64_t end, Get&& get) {
  __shared__ LastResult of_warps[32];
  LastResult last{~0ull, 0};
#pragma unroll 1
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) last = last.or_later(get(i));
#pragma unroll 1
  for (int distance = 16; distance > 0; distance /= 2) {
    last = last.or_later(
        {__shfl_xor_sync(kFullWarp, last.key, distance), __shfl_xor_sync(kFullWarp, last.place, distance)});
  }
  __syncthreads();  // a former use is done
  if (lane_number() == 0) of_warps[warp_number()] = last;
  __syncthreads();
#pragma unroll 1
  for (int warp = 0; warp < warps_of_block(); ++warp) last = last.or_later(of_warps[warp]);
  return last;
}

/// Those of a row's results, which are written, as last_of() takes them.
template <class T>
struct WrittenResults {
  const SelectArguments& all;
  const T* row;
  ResultRow<T> results;

  __device__ LastResult operator()(std::int64_t i) const {
    const std::int64_t place = results.index(i);
    return {directed_key(compared(row[place], all.magnitude), all.smallest), static_cast<unsigned long long>(place)};
  }
};

template <class T>
__device__ void write_threshold(const RowRules& rules, std::int64_t number, std::uint64_t bits) {
  using Key = core::KeyOf<T>;
  static_cast<Key*>(rules.thresholds)[number] = static_cast<Key>(bits);
}

/// Looks for the threshold of a row whose results are written: by one block, all of whose threads call this.
/// `is_sorted`: they are in the order of values. Not inlined: few rows need it, and it would cost the others registers.
template <class T, class Arguments>
__device__ __noinline__ void look_for_threshold(const SelectArguments& all, const RowRules& rules, std::int64_t number,
                                                const GeneralRow<Arguments>& row, bool is_sorted) {
  const auto* elements = static_cast<const T*>(row.input);
  const LastResult last = last_of(is_sorted ? row.k - 1 : 0, row.k, WrittenResults<T>{all, elements, {all, number}});
  if (threadIdx.x == 0) write_threshold<T>(rules, number, core::bits_of(elements[last.place]));
}

/// Finishes a row whose results are written, and visible to these threads.
template <class T, class Arguments>
__device__ void finish_row(const SelectArguments& all, const RowRules& rules, std::int64_t number,
                           const GeneralRow<Arguments>& row, FinishingThreads threads) {
  if (row.k == 0 && all.passes != nullptr && threads.thread == 0) all.passes[number] = 0;
  if (all.form == Form::dense || all.form == Form::mask) {
    // What the matrix has outside of the row is not selected.
    for (std::int64_t i = threads.thread; i < all.cols; i += threads.number) {
      if (row.k > 0 && i >= row.start && i < row.start + row.cols) continue;
      if (all.form == Form::dense) {
        static_cast<T*>(all.dense)[number * all.cols + i] = T{};
      } else {
        all.mask[number * all.cols + i] = 0;
      }
    }
    return;
  }
  const ResultRow<T> result(all, number);
  const T loses = std::bit_cast<T>(static_cast<core::KeyOf<T>>(rules.losing_bits));
  for (std::int64_t i = row.k + threads.thread; i < all.k; i += threads.number) result.write(i, loses, -1);
  if (!row.has_places() || result.indices == nullptr) return;
  for (std::int64_t i = threads.thread; i < row.k; i += threads.number) {
    result.write_index(i, row.map.index(row.start, result.index(i)));
  }
}

/// False if a row is as its kernel has written it, but for its threshold.
template <class Arguments>
__device__ bool has_to_finish(const SelectArguments& all, const RowRules& rules, const GeneralRow<Arguments>& row) {
  if (!rules.finishes) return false;
  if (row.k == 0) return true;
  if (all.form == Form::dense || all.form == Form::mask) return row.cols < all.cols;
  return row.k < all.k || row.has_places();
}

/// The same for a block that has written all results, with the row's threshold. All threads of the block call this.
template <class T, class Arguments>
__device__ void finish_row_of_block(const SelectArguments& all, const RowRules& rules, std::int64_t number,
                                    const GeneralRow<Arguments>& row, bool is_sorted = false) {
  const bool looks = row.threshold_is == ThresholdIs::unknown;
  if (row.threshold_is == ThresholdIs::known && threadIdx.x == 0) write_threshold<T>(rules, number, row.threshold);
  if (!looks && !has_to_finish(all, rules, row)) return;
  __syncthreads();
  if (looks) {
    look_for_threshold<T>(all, rules, number, row, is_sorted);
    __syncthreads();  // the places are read
  }
  finish_row<T>(all, rules, number, row, FinishingThreads::of_block());
}

/// The same for the blocks of a cluster that share a row.
template <class T, class Arguments>
__device__ void finish_row_of_cluster(const SelectArguments& all, const RowRules& rules, std::int64_t number,
                                      const GeneralRow<Arguments>& row, int parts) {
  if (parts == 1) return finish_row_of_block<T>(all, rules, number, row);
  const bool looks = row.threshold_is == ThresholdIs::unknown;
  if (row.threshold_is == ThresholdIs::known && block_in_cluster() == 0 && threadIdx.x == 0) {
    write_threshold<T>(rules, number, row.threshold);
  }
  if (!looks && !has_to_finish(all, rules, row)) return;
  cluster_sync();
  if (looks) {
    if (block_in_cluster() == 0) look_for_threshold<T>(all, rules, number, row, false);
    cluster_sync();
  }
  const int threads = static_cast<int>(blockDim.x);
  finish_row<T>(all, rules, number, row,
                {block_in_cluster() * threads + static_cast<int>(threadIdx.x), parts * threads});
}

}  // namespace rtopk::cuda
