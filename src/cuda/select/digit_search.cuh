// The search by digits that cuda_radix and cuda_scan share. From the most significant digit on, a histogram of the
// elements that match the digits found so far shows the next digit of the kth value.
#pragma once

#include <cstdint>

#include "cuda/select/arguments.hpp"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/element.cuh"
#include "cuda/select/row_vectors.cuh"
#include "cuda/select/row_writer.cuh"
#include "plan/select/tuning_long_rows.hpp"

namespace rtopk::cuda {

enum class RadixPass : std::uint8_t { first, middle, last };

/// Vectors that a thread loads at a time.
template <class T>
inline constexpr int kRadixLoads = sizeof(T) == 2 ? 2 : 4;

/// Adds to `bins` the digits of those elements in the vectors [begin, end) that match `prefix`. In the last pass it
/// returns how many of this thread's elements lie above the prefix.
template <class T, RadixPass kPass, class Row>
__device__ std::uint32_t add_digits(const Row& row, std::int64_t begin, std::int64_t end, bool smallest,
                                    core::KeyOf<T> prefix, int shift, int width, std::uint32_t* bins) {
  using Key = core::KeyOf<T>;
  const int above = shift + width;
  const std::uint32_t mask = (1u << width) - 1u;
  std::uint32_t greater = 0;
  for_loads<kRadixLoads<T>>(row, begin, end, [&](const auto& loaded) {
#pragma unroll
    for (int i = 0; i < loaded.kElements; ++i) {
      if (!loaded.has(i)) continue;
      const Key key = directed_key(row.comparable(loaded.element(i)), smallest);
      if constexpr (kPass == RadixPass::first) {
        atomicAdd(&bins[static_cast<std::uint32_t>(key >> shift)], 1u);
      } else {
        const Key begins = static_cast<Key>(key >> above);
        const Key wanted = static_cast<Key>(prefix >> above);
        if (begins == wanted) atomicAdd(&bins[static_cast<std::uint32_t>(key >> shift) & mask], 1u);
        if (kPass == RadixPass::last && begins > wanted) ++greater;
      }
    }
  });
  return greater;
}

/// How many of this thread's elements in the vectors [begin, end) are at or above `key`.
template <class T, class Row>
__device__ std::uint32_t count_at_least(const Row& row, std::int64_t begin, std::int64_t end, bool smallest,
                                        core::KeyOf<T> key) {
  std::uint32_t counted = 0;
  for_loads<kRadixLoads<T>>(row, begin, end, [&](const auto& loaded) {
#pragma unroll
    for (int i = 0; i < loaded.kElements; ++i) {
      counted += loaded.has(i) && directed_key(row.comparable(loaded.element(i)), smallest) >= key ? 1u : 0u;
    }
  });
  return counted;
}

struct RadixDigit {
  std::int64_t digit;
  std::int64_t above;  ///< Elements with a larger digit: fewer than needed.
  std::int64_t here;   ///< Elements with this digit.
};

/// The digit of the `needed`-th largest element; `count(digit)` elements have each of the `number` digits. All threads
/// of the block call this and get the same result.
template <class Count>
__device__ RadixDigit find_digit(const Count& count, int number, std::int64_t needed, BlockScratch& scratch) {
  // Each thread sums some neighbouring digits; the first thread has the largest ones.
  const auto bin = [&](int place) { return static_cast<std::int64_t>(count(number - 1 - place)); };
  const int each = (number + static_cast<int>(blockDim.x) - 1) / static_cast<int>(blockDim.x);
  const int begin = min(static_cast<int>(threadIdx.x) * each, number);
  const int end = min(begin + each, number);
  std::int64_t mine = 0;
  for (int place = begin; place < end; ++place) mine += bin(place);
  std::int64_t above = block_sum_before(mine, scratch);
  if (above < needed && needed <= above + mine) {  // true in exactly one thread
    int place = begin;
    std::int64_t here = bin(place);
    // Invariant: `above` elements have larger digits than `place`, and above < needed.
    while (above + here < needed) {
      above += here;
      here = bin(++place);
    }
    scratch.found[0] = number - 1 - place;
    scratch.found[1] = above;
    scratch.found[2] = here;
  }
  __syncthreads();
  return {scratch.found[0], scratch.found[1], scratch.found[2]};
}

/// Finds the kth value of a row. All threads of the block call this. `bins` holds RadixDigits::kBins words.
template <class T, class Row>
__device__ Threshold<core::KeyOf<T>> radix_kth(const SelectArguments& args, const Row& row, std::uint32_t* bins,
                                               BlockScratch& scratch, std::int32_t& passes) {
  using Key = core::KeyOf<T>;
  using Digits = RadixDigits<sizeof(Key)>;
  Key prefix = 0;
  std::int64_t needed = args.k;
  passes = 0;
  if (args.k == args.cols) return Threshold<Key>::first_at_least(0, args.k);
  // Invariant: `prefix` has the first digits of the kth value, which is the `needed`-th largest element with them.
  for (int pass = 0; pass < Digits::kPasses; ++pass) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < Digits::kBins; i += static_cast<int>(blockDim.x)) bins[i] = 0;
    __syncthreads();
    const int shift = Digits::shift(pass);
    const int width = Digits::width(pass);
    if (pass == 0) {
      add_digits<T, RadixPass::first>(row, 0, row.size(), args.smallest, prefix, shift, width, bins);
    } else {
      add_digits<T, RadixPass::middle>(row, 0, row.size(), args.smallest, prefix, shift, width, bins);
    }
    __syncthreads();
    const RadixDigit found = find_digit([bins](int digit) { return bins[digit]; }, 1 << width, needed, scratch);
    prefix = static_cast<Key>(prefix | static_cast<Key>(static_cast<Key>(found.digit) << shift));
    needed -= found.above;
    ++passes;
    if (needed == found.here) return Threshold<Key>::first_at_least(prefix, args.k);
  }
  return Threshold<Key>::with_ties(prefix, needed);
}

/// Writes a whole row. All threads of the block call this.
template <class T, class Row>
__device__ void write_row(const SelectArguments& args, std::int64_t number, const Row& row,
                          const Threshold<core::KeyOf<T>>& kth, RowWriterShared shared) {
  RowWriter<T, Row>(args, number, row, kth, shared).write(0, row.size(), 0, 0);
}

}  // namespace rtopk::cuda
