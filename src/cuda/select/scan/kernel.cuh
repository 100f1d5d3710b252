// cuda_scan: the paper's bisection over rows of any length, one block for each row. Rows that fit stay in the registers
// of the block; longer ones are read again in every pass. Rows with a value that is not finite, and all rows if the
// problem does not stop early, are then selected exactly, digit by digit as in cuda_radix.
#pragma once

#include <cstdint>
#include <iterator>

#include "core/search.hpp"
#include "cuda/select/arguments.hpp"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/digit_search.cuh"
#include "cuda/select/early_stop.cuh"
#include "cuda/select/element.cuh"
#include "cuda/select/general_row.cuh"
#include "cuda/select/row_vectors.cuh"
#include "cuda/select/row_writer.cuh"
#include "plan/select/tuning_scan.hpp"

namespace rtopk::cuda {

/// What the threads of a block share while they read a row.
template <class Value>
struct ScanRowMemory {
  Value least[32];
  Value greatest[32];
  BlockScratch scratch;
};

/// A row as the bisection sees it: negated for `smallest`, so that it always looks for the largest elements.
template <class T, bool kHeld, class Vectors>
class ScanRow {
 public:
  using E = Element<T>;
  using Value = typename E::Value;
  using Arithmetic = core::ArithmeticOf<T>;
  static constexpr int kVector = RowVectors<T>::kVector;
  static constexpr int kLoads = kScanLoads<sizeof(T)>;
  static constexpr int kElements = kVector * kLoads;

  struct Extent {
    Value least;
    Value greatest;
    bool finite;
  };

  using Shared = ScanRowMemory<Value>;

  __device__ ScanRow(const SelectArguments& args, const Vectors& row, Shared& shared)
      : row_(row), cols_(args.cols), smallest_(args.smallest), shared_(shared) {
    if constexpr (kHeld) {
#pragma unroll
      for (int l = 0; l < kLoads; ++l) {
        const auto threads = static_cast<int>(blockDim.x);
        const auto loaded = row_.template load<false, 1>(l * threads + threadIdx.x, threads, row_.size());
        valid_ |= loaded.valid << (l * kVector);
        // Elements that do not exist get a value below every threshold, except the smallest integer: see count().
#pragma unroll
        for (int j = 0; j < kVector; ++j)
          x_[l * kVector + j] = loaded.has(j) ? directed(loaded.element(j)) : E::least();
      }
    }
  }

  /// The extent of the row, for all threads.
  __device__ Extent extent() const {
    const Value any = directed(row_.elements()[0]);  // from the row, so that threads without elements change nothing
    Extent mine{any, any, true};
    for_elements([&](const auto& x, std::uint32_t valid) {
#pragma unroll
      for (int i = 0; i < static_cast<int>(std::size(x)); ++i) {
        if ((valid >> i & 1u) == 0) continue;
        mine.finite = mine.finite && E::is_finite(x[i]);
        mine.least = x[i] < mine.least ? x[i] : mine.least;
        mine.greatest = x[i] > mine.greatest ? x[i] : mine.greatest;
      }
    });
    reduce(mine);
    __syncthreads();
    if (lane_number() == 0) {
      shared_.least[warp_number()] = mine.least;
      shared_.greatest[warp_number()] = mine.greatest;
    }
    const bool finite = __syncthreads_and(mine.finite ? 1 : 0) != 0;
    const int other = lane_number() < warps_of_block() ? lane_number() : 0;
    Extent all{shared_.least[other], shared_.greatest[other], finite};
    reduce(all);
    return all;
  }

  /// How many elements are at or above `threshold`, for all threads. Only for rows of finite values.
  __device__ std::int64_t count(Arithmetic threshold) const {
    const Value at = least_at(threshold);
    std::uint32_t counted = 0;
    for_elements([&](const auto& x, std::uint32_t valid) {
      float some = 0;  // at most 16
#pragma unroll
      for (int i = 0; i < static_cast<int>(std::size(x)); ++i) {
        if constexpr (kHeld) {
          some += E::one_if_at_least(x[i], at);
        } else {
          some += (valid >> i & 1u) != 0 ? E::one_if_at_least(x[i], at) : 0.0f;
        }
      }
      counted += static_cast<std::uint32_t>(__float2int_rz(some));
    });
    const std::int64_t all = block_sum(counted, shared_.scratch);
    return kHeld && at == E::least() ? cols_ : all;
  }

  /// The arithmetic value of a directed one. An integer x directed to ~x has the arithmetic value -x.
  __device__ Arithmetic arithmetic(Value x) const {
    if constexpr (core::is_floating<T>) {
      return x;
    } else {
      return smallest_ ? static_cast<double>(x) + 1.0 : static_cast<double>(x);
    }
  }

 private:
  __device__ Value directed(T raw) const {
    const Value x = E::value(row_.comparable(raw));
    if constexpr (core::is_floating<T>) {
      return smallest_ ? -x : x;  // NaN stays NaN: such a row is not bisected
    } else {
      return smallest_ ? ~x : x;
    }
  }

  /// The smallest directed value whose arithmetic value is at or above `threshold`.
  __device__ Value least_at(Arithmetic threshold) const {
    if constexpr (core::is_floating<T>) {
      return threshold;
    } else {
      // Rounds up first, then subtracts 1, in 64 bits: the threshold may be 2^31, and after subtracting 1 a double may
      // not represent its small distance above an integer.
      return static_cast<Value>(__double2ll_ru(threshold) - (smallest_ ? 1 : 0));
    }
  }

  static __device__ void reduce(Extent& extent) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      const Value least = __shfl_xor_sync(kFullWarp, extent.least, distance);
      const Value greatest = __shfl_xor_sync(kFullWarp, extent.greatest, distance);
      extent.least = least < extent.least ? least : extent.least;
      extent.greatest = greatest > extent.greatest ? greatest : extent.greatest;
    }
  }

  /// Calls f with all elements of this thread, some at a time.
  template <class F>
  __device__ void for_elements(F&& f) const {
    if constexpr (kHeld) {
      f(x_, valid_);
    } else {
      for_loads<kLoads>(row_, 0, row_.size(), [&](const auto& loaded) {
        Value x[loaded.kElements];
#pragma unroll
        for (int i = 0; i < loaded.kElements; ++i) x[i] = directed(loaded.element(i));
        f(x, loaded.valid);
      });
    }
  }

  const Vectors& row_;
  std::int64_t cols_;
  bool smallest_;
  Shared& shared_;
  Value x_[kHeld ? kElements : 1];
  std::uint32_t valid_ = 0;
};

/// The selection of an early stop, as keys.
template <class T, Direction direction>
__device__ Threshold<core::KeyOf<T>> kth_of(const core::Selection<core::ArithmeticOf<T>>& selection, std::int64_t k) {
  using Key = core::KeyOf<T>;
  const Key fill = core::directed_threshold_key<T, direction>(selection.fill);
  if (selection.fill_only) return Threshold<Key>::first_at_least(fill, k);
  return {fill, core::directed_threshold_key<T, direction>(selection.sure), true, k - selection.count_sure};
}

/// What the threads of a block share.
template <class T>
struct ScanShared {
  ScanRowMemory<typename Element<T>::Value> row;
  std::uint32_t totals[2][32];
};

/// Selects from row `number` of a matrix. All threads of the block call this.
template <class T, bool kHeld, bool kGeneral>
__device__ void scan_row(const SelectArguments& args, std::int64_t number, ScanShared<T>& memory, char* shared) {
  using Key = core::KeyOf<T>;
  using Vectors = RowVectors<T, kGeneral>;
  using Row = ScanRow<T, kHeld, Vectors>;
  auto* bins = reinterpret_cast<std::uint32_t*>(shared);
  auto* lists = reinterpret_cast<std::uint16_t*>(shared + RadixDigits<sizeof(Key)>::kSharedBytes);
  const Vectors vectors(args, number);
  Threshold<Key> kth{};
  std::int32_t passes = 0;
  bool exact = true;
  {
    const Row row(args, vectors, memory.row);
    const typename Row::Extent extent = row.extent();
    if (extent.finite) {
      // Every thread runs the search, since all threads have the counts.
      core::Bisection<core::ArithmeticOf<T>> search(row.arithmetic(extent.least), row.arithmetic(extent.greatest),
                                                    args.k, args.max_iter, args.rule, args.epsilon);
#pragma unroll 1
      while (search.next()) search.record(row.count(search.middle()));
      const auto selection = search.selection();
      passes = selection.passes;
      exact = !stops_early(args);
      if (!exact) {
        kth = args.smallest ? kth_of<T, Direction::smallest>(selection, args.k)
                            : kth_of<T, Direction::largest>(selection, args.k);
      }
    }
  }
  if (exact) {
    std::int32_t digits = 0;
    kth = radix_kth<T>(args, vectors, bins, memory.row.scratch, digits);
  }
  write_row<T>(args, number, vectors, kth, {memory.totals, lists});
  if (args.passes != nullptr && threadIdx.x == 0) args.passes[number] = passes;
}

template <class T, bool kHeld>
__global__ void __launch_bounds__(kScanMaxThreads) scan_rows_kernel(const __grid_constant__ SelectArguments args) {
  extern __shared__ __align__(16) char shared[];
  __shared__ ScanShared<T> memory;
  for (std::int64_t number = blockIdx.x; number < args.rows; number += gridDim.x) {
    scan_row<T, kHeld, false>(args, number, memory, shared);
  }
}

template <class T>
__global__ void __launch_bounds__(kScanMaxThreads)
    general_scan_kernel(const __grid_constant__ SelectArguments args, const __grid_constant__ RowRules rules) {
  extern __shared__ __align__(16) char shared[];
  __shared__ ScanShared<T> memory;
  __shared__ GeneralRow<SelectArguments> own;
  for (std::int64_t number = blockIdx.x; number < args.rows; number += gridDim.x) {
    own.template set<T, false>(args, rules, number, [](SelectArguments&) {});
    if (own.k > 0) {
      scan_row<T, false, true>(own, 0, memory, shared);
    } else if (args.passes != nullptr && threadIdx.x == 0) {
      args.passes[number] = 0;
    }
    finish_row_of_block<T>(args, rules, number, own);
  }
}

}  // namespace rtopk::cuda
