// cuda_radix, digit by digit: finds the kth value of a row from the most significant digit on. A histogram of the elements
// that match the digits found so far shows the next digit of the kth value. It takes any length, any k and any values,
// in as many passes as the key has digits, or fewer if a digit settles it.
//
// A block that has a row to itself does all passes in one kernel; plain rows try the two reads of bracket.cuh first. If
// several blocks share a row, each pass is a kernel: every block adds its histogram to the row's, and the last one to
// finish reads off the digit. The last pass also keeps the histogram of every part. Once the kth value is known these
// tell how many results each part has, so that results are written in index order without counting again.
#pragma once

#include <cstdint>
#include <type_traits>

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
    if (own.k > 0) {
      const RowVectors<T, true> row(own, 0);
      const auto kth = radix_kth<T>(own, row, bins, scratch, passes);
      if (passes == Digits::kPasses) own.template found<T>(kth.fill);
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
  LastResult* last;  ///< In the place of the counts, which are no longer needed then.
  std::uint32_t* slots;
};

/// In place of RowRules: the rows are those of the matrix.
struct NoRules {};

/// What a block knows about its row.
template <class T, class Rules>
struct RadixRow {
  static constexpr bool kGeneral = std::is_same_v<Rules, RowRules>;
  using Vectors = RowVectors<T, kGeneral>;
  struct Nothing {};
  using Shared = std::conditional_t<kGeneral, GeneralRow<SelectArguments>, Nothing>;

  const SelectArguments& args;
  std::int64_t number;  ///< The row's in these arguments.

  /// All threads of the block call this.
  static __device__ RadixRow of(const SelectArguments& all, const Rules& rules, const RadixBatch& batch,
                                Shared& shared) {
    const std::int64_t number = batch.first_row + blockIdx.x / batch.parts;
    if constexpr (kGeneral) {
      shared.template set<T, false>(all, rules, number, [](SelectArguments&) {});
      return {shared, 0};
    } else {
      return {all, number};
    }
  }
  /// Nothing is selected from it.
  [[nodiscard]] __device__ bool is_empty() const { return kGeneral && args.k == 0; }
};

/// The part of a row that a block has, in vectors.
struct RadixPart {
  std::int64_t row;  ///< In the batch.
  int part;
  std::int64_t begin;
  std::int64_t end;

  template <class Vectors>
  static __device__ RadixPart of(const Vectors& vectors, std::int64_t row, int part, int parts) {
    const std::int64_t size = vectors.size();
    const std::int64_t each = ((size + parts - 1) / parts + 31) / 32 * 32;
    const std::int64_t begin = min(part * each, size);
    return {row, part, begin, min(begin + each, size)};
  }
};

/// True in the last block of a row that calls this: it sees what all have written before. All threads of the block call
/// this.
inline __device__ bool is_last_of_row(RadixState& state, std::int32_t parts) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(&state.ticket, 1u) == static_cast<std::uint32_t>(parts - 1);
  __syncthreads();
  if (is_last) __threadfence();
  return is_last;
}

template <class T, RadixPass kPass, class Rules>
__global__ void __launch_bounds__(kRadixThreadsShared)
    radix_pass_kernel(const __grid_constant__ SelectArguments all, const __grid_constant__ Rules rules,
                      const __grid_constant__ RadixBatch batch) {
  using Key = core::KeyOf<T>;
  using Digits = RadixDigits<sizeof(Key)>;
  using Row = RadixRow<T, Rules>;
  __shared__ BlockScratch scratch;
  __shared__ std::uint32_t bins[Digits::kBins];
  __shared__ typename Row::Shared shared_row;

  const std::int64_t in_batch = blockIdx.x / batch.parts;
  RadixState& state = batch.states[in_batch];
  const Row own = Row::of(all, rules, batch, shared_row);
  const SelectArguments& args = own.args;
  if (own.is_empty()) {
    if (kPass == RadixPass::first && blockIdx.x % batch.parts == 0 && threadIdx.x == 0) state = {.done = 1};
    return;
  }
  RadixState before{};
  before.needed = args.k;
  if constexpr (kPass != RadixPass::first) before = state;
  if (kPass == RadixPass::middle && before.done != 0) return;

  const typename Row::Vectors row(args, own.number);
  const RadixPart part = RadixPart::of(row, in_batch, static_cast<int>(blockIdx.x % batch.parts), batch.parts);
  RadixCount& count = batch.counts[in_batch * batch.parts + part.part];
  const auto prefix = static_cast<Key>(before.prefix);
  if (kPass == RadixPass::last && before.done != 0) {
    const std::uint32_t mine = count_at_least<T>(row, part.begin, part.end, args.smallest, prefix);
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

  unsigned long long* sums = batch.bins + in_batch * Digits::kBins;
  for (int i = static_cast<int>(threadIdx.x); i < number; i += static_cast<int>(blockDim.x)) {
    const std::uint32_t counted = bins[i];
    if (counted != 0) atomicAdd(&sums[i], static_cast<unsigned long long>(counted));
    if constexpr (kPass == RadixPass::last) {
      batch.slots[(in_batch * batch.parts + part.part) * Digits::kLastBins + i] = counted;
    }
  }

  if (!is_last_of_row(state, batch.parts)) return;
  // Bypasses the cache of this multiprocessor, which does not see what other blocks have added.
  const RadixDigit found =
      find_digit([sums](int digit) { return __ldcg(&sums[digit]); }, number, before.needed, scratch);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < number; i += static_cast<int>(blockDim.x))
    sums[i] = 0;  // for the next pass
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

template <class T, class Rules>
__global__ void __launch_bounds__(kRadixThreadsShared, 2)
    radix_write_kernel(const __grid_constant__ SelectArguments all, const __grid_constant__ Rules rules,
                       const __grid_constant__ RadixBatch batch) {
  using Key = core::KeyOf<T>;
  using Digits = RadixDigits<sizeof(Key)>;
  using Row = RadixRow<T, Rules>;
  extern __shared__ __align__(16) char shared[];
  __shared__ BlockScratch scratch;
  __shared__ std::uint32_t totals[2][32];
  __shared__ typename Row::Shared shared_row;

  const Row own = Row::of(all, rules, batch, shared_row);
  if (own.is_empty()) return;
  const SelectArguments& args = own.args;
  const int in_batch = static_cast<int>(blockIdx.x) / batch.parts;
  const typename Row::Vectors row(args, own.number);
  const RadixPart part = RadixPart::of(row, in_batch, static_cast<int>(blockIdx.x % batch.parts), batch.parts);
  const RadixState& state = batch.states[in_batch];
  const auto prefix = static_cast<Key>(state.prefix);
  const auto kth = state.passes < Digits::kPasses ? Threshold<Key>::first_at_least(prefix, args.k)
                                                  : Threshold<Key>::with_ties(prefix, state.needed);
  if (args.passes != nullptr && part.part == 0 && threadIdx.x == 0) args.passes[own.number] = state.passes;

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
  RowWriter<T, typename Row::Vectors>(args, own.number, row, kth, {totals, reinterpret_cast<std::uint16_t*>(shared)})
      .write(part.begin, part.end, sums.a, sums.b);
}

/// The thresholds of general rows whose results are written. If not all digits of the kth value were needed, every block
/// looks for the last of its share of the results.
template <class T>
__global__ void __launch_bounds__(kRadixThreadsShared)
    radix_threshold_kernel(const __grid_constant__ SelectArguments all, const __grid_constant__ RowRules rules,
                           const __grid_constant__ RadixBatch batch) {
  __shared__ GeneralRow<SelectArguments> own;
  const std::int64_t in_batch = blockIdx.x / batch.parts;
  const std::int64_t number = batch.first_row + in_batch;
  const auto part = static_cast<int>(blockIdx.x % batch.parts);
  RadixState& state = batch.states[in_batch];
  RadixRow<T, RowRules>::of(all, rules, batch, own);
  if (state.passes == RadixDigits<sizeof(T)>::kPasses) {
    own.template found<T>(static_cast<core::KeyOf<T>>(state.prefix));
    __syncthreads();
  }
  if (own.threshold_is == ThresholdIs::known) {
    if (part == 0 && threadIdx.x == 0) write_threshold<T>(rules, number, own.threshold);
    return;
  }
  const std::int64_t k = own.k;
  const auto* row = static_cast<const T*>(own.input);
  const std::int64_t each = (k + batch.parts - 1) / batch.parts;
  const LastResult mine = last_of(part * each, min((part + 1) * each, k), WrittenResults<T>{all, row, {all, number}});
  LastResult* of_parts = batch.last + in_batch * batch.parts;
  if (threadIdx.x == 0) of_parts[part] = mine;
  if (!is_last_of_row(state, batch.parts)) return;
  const LastResult last = last_of(0, batch.parts, [of_parts](std::int64_t i) {
    return LastResult{__ldcg(&of_parts[i].key), __ldcg(&of_parts[i].place)};
  });
  if (threadIdx.x == 0) {
    state.ticket = 0;
    write_threshold<T>(rules, number, core::bits_of(row[last.place]));
  }
}

/// Finishes general rows whose results are written.
template <class T>
__global__ void __launch_bounds__(kRadixThreadsShared)
    radix_finish_kernel(const __grid_constant__ SelectArguments all, const __grid_constant__ RowRules rules,
                        const __grid_constant__ RadixBatch batch) {
  __shared__ GeneralRow<SelectArguments> own;
  RadixRow<T, RowRules>::of(all, rules, batch, own);
  if (!has_to_finish(all, rules, own)) return;
  const auto threads = static_cast<int>(blockDim.x);
  const auto part = static_cast<int>(blockIdx.x % batch.parts);
  finish_row<T>(all, rules, batch.first_row + blockIdx.x / batch.parts, own,
                {part * threads + static_cast<int>(threadIdx.x), batch.parts * threads});
}

}  // namespace rtopk::cuda
