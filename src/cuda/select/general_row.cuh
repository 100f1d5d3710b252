// General rows, for kernels that give each row a block or a cluster.
//
// Such a kernel makes arguments for a matrix that has its row alone, selects from that as from any matrix, and finishes
// the row: results are written as (value, place in the row) first. Then places become what the caller wants as indices,
// the rest of a short row is filled, and values that were compared by magnitude get their sign back.
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

/// A row in shared memory: its arguments, and where it lies.
template <class Arguments>
struct GeneralRow {
  Arguments args;  ///< Of a matrix that has this row alone.
  core::RowShape shape;

  /// Sets the row `number`. `adjust(args)` sets what else depends on the length. All threads of the block call this.
  template <class T, class Adjust>
  __device__ void set(const Arguments& all, const RowRules& rules, std::int64_t number, Adjust&& adjust) {
    static_assert(sizeof(Arguments) % 4 == 0 && std::is_trivially_copyable_v<Arguments>);
    core::RowShape own{};
    __syncthreads();  // the row before is done
    if (threadIdx.x == 0) {
      own = core::row_shape(rules.ragged, rules.arrays, all.cols, all.k, number);
    } else {
      // Meanwhile.
      for (unsigned i = threadIdx.x - 1; i < sizeof(Arguments) / 4; i += blockDim.x - 1) {
        reinterpret_cast<std::uint32_t*>(&args)[i] = reinterpret_cast<const std::uint32_t*>(&all)[i];
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      shape = own;
      args.input = row_of<T>(all, rules, number, own);
      args.rows = 1;
      args.cols = own.length;
      args.k = own.k;
      if (all.values != nullptr) args.values = static_cast<T*>(all.values) + number * all.k;
      if (all.indices != nullptr) {
        args.indices = static_cast<char*>(all.indices) + number * all.k * index_bytes(all.index_type);
      }
      if (all.form == Form::dense) args.dense = static_cast<T*>(all.dense) + number * all.cols + own.start;
      if (all.form == Form::mask) args.mask = all.mask + number * all.cols + own.start;
      if (all.passes != nullptr) args.passes = all.passes + number;
      if (own.length != all.cols || own.k != all.k) adjust(args);
    }
    __syncthreads();
    if (rules.map.kind == IndexKind::pages) prefetch_pages(rules, number);
  }

  /// The first element of a row.
  template <class T>
  static __device__ const T* row_of(const SelectArguments& all, const RowRules& rules, std::int64_t number,
                                    const core::RowShape& shape) {
    const std::int64_t row = core::exists(rules.ragged.offsets) ? 0 : number * all.stride;
    return static_cast<const T*>(all.input) + row + shape.start;
  }

 private:
  /// The row's page table will be needed at the end, at once.
  static __device__ void prefetch_pages(const RowRules& rules, std::int64_t number) {
    const std::int64_t table =
        core::exists(rules.map.table_of) ? core::number_at(rules.arrays.table_of, rules.map.table_of, number) : number;
    if (table < 0 || table >= rules.map.tables) return;
    constexpr int kLine = 128;
    const int bytes = rules.map.type == ArrayType::i64 ? 8 : 4;
    const char* entries = static_cast<const char*>(rules.arrays.map) + table * rules.map.stride * bytes;
    for (std::int64_t at = std::int64_t{kLine} * threadIdx.x; at < rules.map.pages * bytes; at += kLine * blockDim.x) {
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

/// The kth value of a row whose results are written: by one block, all of whose threads call this.
template <class T>
__device__ void write_threshold(const SelectArguments& all, const RowRules& rules, std::int64_t number,
                                const core::RowShape& shape) {
  __shared__ unsigned long long least;
  __shared__ unsigned long long last;
  auto* to = static_cast<core::KeyOf<T>*>(rules.thresholds) + number;
  if (shape.is_short) {
    if (threadIdx.x == 0) *to = static_cast<core::KeyOf<T>>(rules.losing_bits);
    return;
  }
  const T* row = GeneralRow<SelectArguments>::row_of<T>(all, rules, number, shape);
  const ResultRow<T> result(all, number);
  if (threadIdx.x == 0) {
    least = ~0ull;
    last = 0;
  }
  __syncthreads();
  // First the least key, then the last place that has it.
  const auto for_results = [&](auto&& f) {
    for (std::int64_t i = threadIdx.x; i < shape.k; i += blockDim.x) {
      const std::int64_t place = result.index(i);
      f(static_cast<unsigned long long>(directed_key(compared(row[place], all.magnitude), all.smallest)), place);
    }
  };
  for_results([&](unsigned long long key, std::int64_t) { atomicMin(&least, key); });
  __syncthreads();
  for_results([&](unsigned long long key, std::int64_t place) {
    if (key == least) atomicMax(&last, static_cast<unsigned long long>(place));
  });
  __syncthreads();
  if (threadIdx.x == 0) *to = core::bits_of(row[last]);
}

/// Finishes a row whose results are written, and visible to these threads.
template <class T>
__device__ void finish_row(const SelectArguments& all, const RowRules& rules, std::int64_t number,
                           const core::RowShape& shape, FinishingThreads threads) {
  const T* row = GeneralRow<SelectArguments>::row_of<T>(all, rules, number, shape);
  const bool is_flat = core::exists(rules.ragged.offsets);
  if (shape.k == 0 && all.passes != nullptr && threads.thread == 0) all.passes[number] = 0;
  if (all.form == Form::dense || all.form == Form::mask) {
    // What the matrix has outside of the row is not selected.
    for (std::int64_t i = threads.thread; i < all.cols; i += threads.number) {
      if (shape.k > 0 && i >= shape.start && i < shape.start + shape.length) continue;
      if (all.form == Form::dense) {
        static_cast<T*>(all.dense)[number * all.cols + i] = T{};
      } else {
        all.mask[number * all.cols + i] = 0;
      }
    }
    return;
  }
  const ResultRow<T> result(all, number);
  const bool keeps_indices = rules.map.kind == IndexKind::column && shape.start == 0;
  const bool keeps_values = !all.magnitude || result.values == nullptr;
  const T loses = std::bit_cast<T>(static_cast<core::KeyOf<T>>(rules.losing_bits));
  const auto k = static_cast<int>(shape.k);
  for (int i = k + threads.thread; i < static_cast<int>(all.k); i += threads.number) result.write(i, loses, -1);
  if (keeps_indices && keeps_values) return;
  // Several at once: each waits for the place, and then for what is there.
  constexpr int kAtOnce = 2;
  for (int first = threads.thread; first < k; first += kAtOnce * threads.number) {
    int places[kAtOnce];
    const auto for_each = [&](auto&& f) {
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = first + j * threads.number;
        if (i < k) f(i, places[j]);
      }
    };
    for_each([&](int i, int& place) { place = static_cast<int>(result.index(i)); });
    if (!keeps_values) for_each([&](int i, int place) { result.values[i] = row[place]; });
    if (!keeps_indices) {
      for_each([&](int i, int place) {
        result.write_index(i, core::written_index(rules.map, rules.arrays, is_flat, number, shape.start, place));
      });
    }
  }
}

/// False if a row is as its kernel has written it.
__device__ inline bool has_to_finish(const SelectArguments& all, const RowRules& rules, const core::RowShape& shape) {
  if (!rules.finishes) return false;
  if (rules.thresholds != nullptr || shape.k == 0) return true;
  if (all.form == Form::dense || all.form == Form::mask) return shape.length < all.cols;
  return all.magnitude || shape.k < all.k || shape.start != 0 || rules.map.kind != IndexKind::column;
}

/// The same for a block that has written all results, with the row's threshold. All threads of the block call this.
template <class T>
__device__ void finish_row_of_block(const SelectArguments& all, const RowRules& rules, std::int64_t number,
                                    const core::RowShape& shape) {
  if (!has_to_finish(all, rules, shape)) return;
  __syncthreads();
  if (rules.thresholds != nullptr) {
    write_threshold<T>(all, rules, number, shape);
    __syncthreads();  // the places are read
  }
  finish_row<T>(all, rules, number, shape, FinishingThreads::of_block());
}

/// The same for the blocks of a cluster that share a row.
template <class T>
__device__ void finish_row_of_cluster(const SelectArguments& all, const RowRules& rules, std::int64_t number,
                                      const core::RowShape& shape, int parts) {
  if (parts == 1) return finish_row_of_block<T>(all, rules, number, shape);
  if (!has_to_finish(all, rules, shape)) return;
  cluster_sync();
  if (rules.thresholds != nullptr) {
    if (block_in_cluster() == 0) write_threshold<T>(all, rules, number, shape);
    cluster_sync();
  }
  const int threads = static_cast<int>(blockDim.x);
  finish_row<T>(all, rules, number, shape,
                {block_in_cluster() * threads + static_cast<int>(threadIdx.x), parts * threads});
}

}  // namespace rtopk::cuda
