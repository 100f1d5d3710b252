// Sorts many results of general rows by value: a block for each row merges runs in the workspace, first of one result
// each. Slow beside the sorts of plain rows, but for any number of results, and any row may have fewer than the others.
#pragma once

#include <cstdint>

#include "cuda/select/element.cuh"
#include "cuda/select/general_row.cuh"
#include "cuda/select/result_row.cuh"
#include "plan/select/tuning_sort.hpp"

namespace rtopk::cuda {

template <class T>
struct MergedResult {
  core::KeyOf<T> key;
  std::uint32_t place;

  __device__ bool comes_before(const MergedResult& other) const {
    return key > other.key || (key == other.key && place < other.place);
  }
};

/// How many of the `number` sorted results come before one that is not among them.
template <class T>
__device__ std::int64_t number_before(const MergedResult<T>* sorted, std::int64_t number, const MergedResult<T>& one) {
  std::int64_t least = 0;
  while (least < number) {
    const std::int64_t middle = (least + number) / 2;
    if (sorted[middle].comes_before(one)) {
      least = middle + 1;
    } else {
      number = middle;
    }
  }
  return least;
}

template <class T>
__global__ void __launch_bounds__(MergeSortConfig::kThreads)
    general_merge_sort_kernel(const __grid_constant__ SelectArguments args, const __grid_constant__ RowRules rules) {
  static_assert(sizeof(MergedResult<T>) <= MergeSortConfig::kResultBytes);
  using Result = MergedResult<T>;
  __shared__ GeneralRow<SelectArguments> own;
  auto* from = static_cast<Result*>(args.workspace) + 2 * args.k * blockIdx.x;
  Result* to = from + args.k;
  for (std::int64_t number = blockIdx.x; number < args.rows; number += gridDim.x) {
    own.template set<T, false>(args, rules, number, [](SelectArguments&) {});
    const std::int64_t k = own.k;
    const T* row = static_cast<const T*>(own.input);
    const ResultRow<T> results(own, 0);
    const auto for_each = [&](auto&& f) {
      for (std::int64_t i = threadIdx.x; i < k; i += blockDim.x) f(i);
      __syncthreads();
    };
    for_each([&](std::int64_t i) {
      const std::int64_t place = results.index(i);
      from[i] = {directed_key(compared(row[place], args.magnitude), args.smallest), static_cast<std::uint32_t>(place)};
    });
    for (std::int64_t run = 1; run < k; run *= 2) {
      for_each([&](std::int64_t i) {
        const std::int64_t first = i & -(2 * run);  // run is a power of two
        const std::int64_t middle = min(first + run, k);
        const std::int64_t end = min(middle + run, k);
        const Result one = from[i];
        to[i < middle ? i + number_before(from + middle, end - middle, one)
                      : i - (middle - first) + number_before(from + first, middle - first, one)] = one;
      });
      Result* sorted = to;
      to = from;
      from = sorted;
    }
    for_each([&](std::int64_t i) { results.write(i, row[from[i].place], from[i].place); });
    finish_row_of_block<T>(args, rules, number, own, true);
  }
}

}  // namespace rtopk::cuda
