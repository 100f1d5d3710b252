// cuda_radix: finds the kth value of a row digit by digit, from the most significant one. A histogram of the elements
// that match the digits found so far shows the next digit of the kth value. It takes any length, any k and any values,
// in as many passes as the key has digits, or fewer if a digit settles it.
//
// A block that has a row to itself does all passes in one kernel. If several blocks share a row, each pass is a kernel:
// every block adds its histogram to the row's, and the last one to finish reads off the digit. The last pass also keeps
// the histogram of every part. Once the kth value is known these tell how many results each part has, so that results
// are written in index order without counting again.
#pragma once

#include <cstdint>

#include "cuda/select/arguments.hpp"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/digit_search.cuh"
#include "cuda/select/general_row.cuh"
#include "cuda/select/row_vectors.cuh"
#include "cuda/select/row_writer.cuh"
#include "plan/select/tuning_radix.hpp"

namespace rtopk::cuda {

template <class T>
__global__ void __launch_bounds__(kRadixThreadsAlone) radix_alone_kernel(const __grid_constant__ SelectArguments args) {
  using Digits = RadixDigits<sizeof(T)>;
  extern __shared__ __align__(16) char shared[];
  __shared__ BlockScratch scratch;
  __shared__ std::uint32_t totals[2][32];
  auto* bins = reinterpret_cast<std::uint32_t*>(shared);
  auto* lists = reinterpret_cast<std::uint16_t*>(shared + Digits::kSharedBytes);
  for (std::int64_t number = blockIdx.x; number < args.rows; number += gridDim.x) {
    const RowVectors<T> row(args, number);
    std::int32_t passes = 0;
    const auto kth = radix_kth<T>(args, row, bins, scratch, passes);
    write_row<T>(args, number, row, kth, {totals, lists});
    if (args.passes != nullptr && threadIdx.x == 0) args.passes[number] = passes;
  }
}

/// The same for general rows.
template <class T>
__global__ void __launch_bounds__(kRadixThreadsAlone)
    general_radix_kernel(const __grid_constant__ SelectArguments args, const __grid_constant__ RowRules rules) {
  using Digits = RadixDigits<sizeof(T)>;
  extern __shared__ __align__(16) char shared[];
  __shared__ BlockScratch scratch;
  __shared__ std::uint32_t totals[2][32];
  __shared__ GeneralRow<SelectArguments> own;
  auto* bins = reinterpret_cast<std::uint32_t*>(shared);
  auto* lists = reinterpret_cast<std::uint16_t*>(shared + Digits::kSharedBytes);
  for (std::int64_t number = blockIdx.x; number < args.rows; number += gridDim.x) {
    own.template set<T, false>(args, rules, number, [](SelectArguments&) {});
    std::int32_t passes = 0;
    if (own.shape.k > 0) {
      const RowVectors<T, true> row(own, 0);
      const auto kth = radix_kth<T>(own, row, bins, scratch, passes);
      write_row<T>(own, 0, row, kth, {totals, lists});
    }
    if (args.passes != nullptr && threadIdx.x == 0) args.passes[number] = passes;
    finish_row_of_block<T>(args, rules, number, own);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Rows that several blocks share.

/// A batch of rows. Blocks are numbered row by row.
struct RadixBatch {
  std::int64_t first_row;
  std::int32_t parts;
  std::int32_t pass;
  RadixState* states;
  unsigned long long* bins;
  RadixCount* counts;
  std::uint32_t* slots;
};

/// The part of a row that a block has, in vectors.
struct RadixPart {
  std::int64_t row;  ///< In the batch.
  int part;
  std::int64_t begin;
  std::int64_t end;

  template <class T>
  static __device__ RadixPart of(const RowVectors<T>& vectors, std::int64_t row, int part, int parts) {
    const std::int64_t size = vectors.size();
    const std::int64_t each = ((size + parts - 1) / parts + 31) / 32 * 32;
    const std::int64_t begin = min(part * each, size);
    return {row, part, begin, min(begin + each, size)};
  }
};

template <class T, RadixPass kPass>
__global__ void __launch_bounds__(kRadixThreadsShared)
    radix_pass_kernel(const __grid_constant__ SelectArguments args, const __grid_constant__ RadixBatch batch) {
  using Key = core::KeyOf<T>;
  using Digits = RadixDigits<sizeof(Key)>;
  __shared__ BlockScratch scratch;
  __shared__ std::uint32_t bins[Digits::kBins];
  __shared__ bool is_last_block;

  const std::int64_t in_batch = blockIdx.x / batch.parts;
  RadixState& state = batch.states[in_batch];
  RadixState before{};
  before.needed = args.k;
  if constexpr (kPass != RadixPass::first) before = state;
  if (kPass == RadixPass::middle && before.done != 0) return;

  const RowVectors<T> row(args, batch.first_row + in_batch);
  const RadixPart part = RadixPart::of(row, in_batch, static_cast<int>(blockIdx.x % batch.parts), batch.parts);
  RadixCount& count = batch.counts[in_batch * batch.parts + part.part];
  const auto prefix = static_cast<Key>(before.prefix);
  if (kPass == RadixPass::last && before.done != 0) {
    const std::uint32_t mine = count_at_least(row, part.begin, part.end, args.smallest, prefix);
    const std::int64_t counted = block_sum(mine, scratch);
    if (threadIdx.x == 0) count = {0, counted};
    return;
  }

  const int shift = Digits::shift(batch.pass);
  const int width = Digits::width(batch.pass);
  const int number = 1 << width;
  for (int i = static_cast<int>(threadIdx.x); i < number; i += static_cast<int>(blockDim.x)) bins[i] = 0;
  __syncthreads();
  const std::uint32_t greater =
      add_digits<T, kPass>(row, part.begin, part.end, args.smallest, prefix, shift, width, bins);
  if constexpr (kPass == RadixPass::last) {
    const std::int64_t counted = block_sum(greater, scratch);
    if (threadIdx.x == 0) count = {counted, 0};  // radix_count_kernel adds those that the last digit decides
  }
  __syncthreads();

  unsigned long long* all = batch.bins + in_batch * Digits::kBins;
  for (int i = static_cast<int>(threadIdx.x); i < number; i += static_cast<int>(blockDim.x)) {
    const std::uint32_t counted = bins[i];
    if (counted != 0) atomicAdd(&all[i], static_cast<unsigned long long>(counted));
    if constexpr (kPass == RadixPass::last) {
      batch.slots[(in_batch * batch.parts + part.part) * Digits::kLastBins + i] = counted;
    }
  }

  // The last block of the row to get here sees what all have added.
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last_block = atomicAdd(&state.ticket, 1u) == static_cast<std::uint32_t>(batch.parts - 1);
  __syncthreads();
  if (!is_last_block) return;
  __threadfence();
  // Bypasses the cache of this multiprocessor, which does not see what other blocks have added.
  const RadixDigit found = find_digit([all](int digit) { return __ldcg(&all[digit]); }, number, before.needed, scratch);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < number; i += static_cast<int>(blockDim.x))
    all[i] = 0;  // for the next pass
  if (threadIdx.x == 0) {
    RadixState after = before;
    after.prefix |= static_cast<std::uint64_t>(found.digit) << shift;
    after.needed -= found.above;
    after.passes = batch.pass + 1;
    after.done = after.needed == found.here ? 1 : 0;
    after.ticket = 0;
    state = after;
  }
}

/// Counts the results of each part from its histogram of the last pass.
template <class T>
__global__ void __launch_bounds__(128) radix_count_kernel(const __grid_constant__ RadixBatch batch) {
  using Digits = RadixDigits<sizeof(T)>;
  __shared__ BlockScratch scratch;
  const RadixState& state = batch.states[blockIdx.x / batch.parts];
  if (state.passes < Digits::kPasses) return;  // settled earlier: the last pass has counted
  const int digit = static_cast<int>(state.prefix & (Digits::kLastBins - 1));
  const std::uint32_t* slots = batch.slots + static_cast<std::int64_t>(blockIdx.x) * Digits::kLastBins;
  std::int64_t greater = 0;
  for (int i = digit + 1 + static_cast<int>(threadIdx.x); i < Digits::kLastBins; i += static_cast<int>(blockDim.x)) {
    greater += slots[i];
  }
  greater = block_sum(greater, scratch);
  if (threadIdx.x == 0) {
    RadixCount& count = batch.counts[blockIdx.x];
    count = {count.sure + greater, static_cast<std::int64_t>(slots[digit])};
  }
}

template <class T>
__global__ void __launch_bounds__(kRadixThreadsShared, 2)
    radix_write_kernel(const __grid_constant__ SelectArguments args, const __grid_constant__ RadixBatch batch) {
  using Key = core::KeyOf<T>;
  using Digits = RadixDigits<sizeof(Key)>;
  extern __shared__ __align__(16) char shared[];
  __shared__ BlockScratch scratch;
  __shared__ std::uint32_t totals[2][32];

  const int in_batch = static_cast<int>(blockIdx.x) / batch.parts;
  const std::int64_t number = batch.first_row + in_batch;
  const RowVectors<T> row(args, number);
  const RadixPart part = RadixPart::of(row, in_batch, static_cast<int>(blockIdx.x % batch.parts), batch.parts);
  const RadixState& state = batch.states[in_batch];
  const auto prefix = static_cast<Key>(state.prefix);
  const auto kth = state.passes < Digits::kPasses ? Threshold<Key>::first_at_least(prefix, args.k)
                                                  : Threshold<Key>::with_ties(prefix, state.needed);
  if (args.passes != nullptr && part.part == 0 && threadIdx.x == 0) args.passes[number] = state.passes;

  const RadixCount* counts = batch.counts + in_batch * batch.parts;
  std::int64_t sure = 0;
  std::int64_t fill = 0;
  for (int i = static_cast<int>(threadIdx.x); i < part.part; i += static_cast<int>(blockDim.x)) {
    sure += counts[i].sure;
    fill += counts[i].fill;
  }
  const TwoSums sums = block_sums(sure, fill, scratch);
  const RadixCount mine = counts[part.part];
  const bool has_results = mine.sure > 0 || (mine.fill > 0 && sums.b < kth.quota);
  if (!has_results && (args.form == Form::pairs || args.form == Form::cbsr)) return;
  RowWriter<T>(args, number, row, kth, {totals, reinterpret_cast<std::uint16_t*>(shared)})
      .write(part.begin, part.end, sums.a, sums.b);
}

}  // namespace rtopk::cuda
