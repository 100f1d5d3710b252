// The rows of a warp of cuda_tournament in shared memory, if they are general: each has a place and a length of its own.
//
// A row lies in its slot as it does in memory, copied as aligned vectors of 16 bytes. Slots are an odd number of vectors
// apart, so that lanes that read along their rows share a bank with three others at most, whatever the lengths are.
#pragma once

#include <bit>
#include <cstdint>

#include "core/rows.hpp"
#include "cuda/runtime/async_copy.cuh"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/row_numbers.cuh"
#include "cuda/select/tournament/words.cuh"
#include "plan/select/tuning_tournament.hpp"

namespace rtopk::cuda {

/// With what depends on the greatest length and k alone: in a kernel, constants.
struct UnevenTournamentArguments : SelectArguments {
  static constexpr bool kUneven = true;
  RowRules rules;
  const char* last;    ///< The end of the input.
  int lane_words;      ///< From one lane's first word to the next one's.
  int slot_vectors;    ///< Of a row.
  unsigned over_slot;  ///< Fixed-point reciprocal of that.
  unsigned over_k;     ///< Of k. Both are exact for products of less than 2^20.
  int records_at;      ///< Behind the slots.
  int warp_bytes;

  template <class Config>
  static UnevenTournamentArguments of(const SelectArguments& args, const RowRules& rules, int most_k) {
    const auto cols = static_cast<int>(args.cols);
    UnevenTournamentArguments result{args, rules};
    result.last = static_cast<const char*>(args.input) + input_elements(args, rules) * Config::kBytes;
    result.lane_words = Config::stride_words(cols);
    result.slot_vectors = Config::slot_vectors(cols);
    result.over_slot = (1u << 20) / static_cast<unsigned>(result.slot_vectors) + 1;
    result.over_k = (1u << 20) / static_cast<unsigned>(args.k) + 1;
    result.records_at = Config::records_at(cols);
    result.warp_bytes = Config::warp_bytes(most_k, cols);
    return result;
  }
};

/// Where a row of a tile begins and ends.
struct alignas(16) TournamentRecord {
  const char* vectors;  ///< The vector that has its first element.
  int end;              ///< Bytes from there to the end of the row; 0 if it is empty.
  std::uint8_t lead;    ///< Bytes of the first vector before the row.
  std::uint8_t start;   ///< In its row of the matrix, if there is one.
  std::uint8_t results;
  bool is_short;
};
static_assert(sizeof(TournamentRecord) == 16);

/// Copies the rows of a tile.
struct UnevenCopies {
  /// Calls `f(target, source)` for all vectors of rows, neighbouring ones in neighbouring lanes.
  template <class F>
  static __device__ void for_each(int stage_at, int records_at, int vectors, int slot_vectors, unsigned over_slot,
                                  F f) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const auto* records = reinterpret_cast<const uint4*>(tournament_memory() + records_at);  // one access each
#pragma unroll 2
    for (int i = lane; i < vectors; i += 32) {
      const int row = static_cast<int>(static_cast<unsigned>(i) * over_slot >> 20);
      const int at = (i - row * slot_vectors) * 16;
      const auto record = std::bit_cast<TournamentRecord>(records[row]);
      if (at < record.end) f(stage_at + i * 16, record.vectors + at);
    }
  }

  /// Vectors that reach outside of the input, which is all of [first, last), are copied element by element.
  template <class T>
  static __device__ __noinline__ void fetch_near_ends(int stage_at, int records_at, int vectors, int slot_vectors,
                                                      unsigned over_slot, const char* first, const char* last) {
    for_each(stage_at, records_at, vectors, slot_vectors, over_slot, [&](int to, const char* source) {
      char* target = tournament_memory() + to;
      if (source >= first && source + 16 <= last) {
        copy_async<16>(target, source);
        return;
      }
#pragma unroll 1
      for (int j = 0; j < 16; j += static_cast<int>(sizeof(T))) {
        if (source + j >= first && source + j < last) {
          *reinterpret_cast<T*>(target + j) = *reinterpret_cast<const T*>(source + j);
        }
      }
    });
  }
};

template <class T, int G, int R, int K>
struct UnevenTournamentTile : TournamentWords<UnevenTournamentArguments, T, G, R, K> {
  using Words = TournamentWords<UnevenTournamentArguments, T, G, R, K>;
  using Config = UnevenTournamentConfig<T, G, R>;
  using Words::args;
  using Words::at;
  using Words::first_col;
  using Words::kBytes;
  using Words::kMasks;
  using Words::lane;
  using Words::warp_at;

  static constexpr int stage = 0;  ///< The only one.
  std::int64_t first_row;
  int results;  ///< Of this lane's row. May be 0.

  __device__ UnevenTournamentTile(const UnevenTournamentArguments& arguments, int, std::int64_t row)
      : Words(arguments), first_row(row) {
    const TournamentRecord own = record(lane() / G);
    results = own.results;
    Words::set_row(stage_at(args) + lane() / G * args.slot_vectors * 16 + own.lead,
                   max(0, own.end - own.lead) / kBytes);
  }

  __device__ int k() const { return results; }
  __device__ int rows() const { return rows_from(args, first_row); }
  static __device__ int rows_from(const UnevenTournamentArguments& args, std::int64_t row) {
    const std::int64_t left = args.rows - row;
    return left < Config::kRows ? static_cast<int>(left) : Config::kRows;
  }

  // Places in shared memory, in bytes from its beginning.

  static __device__ int stage_at(const UnevenTournamentArguments& args) { return warp_at(args) + Config::stage_at(K); }
  static __device__ int records_at(const UnevenTournamentArguments& args) { return stage_at(args) + args.records_at; }
  __device__ int lists_at() const { return warp_at(args) + Config::kListsAt; }
  __device__ const TournamentRecord& record(int row) const {
    return reinterpret_cast<const TournamentRecord*>(tournament_memory() + records_at(args))[row];
  }

  // ------------------------------------------------------------------------------------------------------------------
  // From global memory.

  /// Loads the numbers of the tile that begins with `row`: one row for each lane, or none.
  static __device__ RowNumbers numbers_from(const UnevenTournamentArguments& args, std::int64_t row) {
    RowNumbers numbers;
    if (lane() < rows_from(args, row)) numbers.load(args.rules, row + lane());
    return numbers;
  }

  /// Starts to copy a tile, of which each lane has the numbers of one row.
  static __device__ void fetch(const UnevenTournamentArguments& args, std::int64_t row, const RowNumbers& numbers) {
    const auto* input = static_cast<const char*>(args.input);
    TournamentRecord own{input, 0, 0, 0, 0, true};
    if (lane() < rows_from(args, row)) {
      const core::RowShape shape = numbers.shape(args, args.rules);
      const char* first = input + first_element(args, args.rules, row + lane(), shape.start) * kBytes;
      const auto lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(first) % 16);
      own.vectors = first - lead;
      own.lead = static_cast<std::uint8_t>(lead);
      if (shape.length > 0) own.end = lead + static_cast<int>(shape.length) * kBytes;
      own.start = static_cast<std::uint8_t>(shape.start);
      own.results = static_cast<std::uint8_t>(shape.k);
      own.is_short = shape.is_short;
    }
    const bool inside = own.end == 0 || (own.vectors >= input &&
                                         own.vectors + static_cast<unsigned>(own.end + 15) / 16 * 16 <= args.last);
    const int records = records_at(args);
    if (lane() < Config::kRows) {
      *reinterpret_cast<uint4*>(tournament_memory() + records + lane() * Config::kRecordBytes) =
          std::bit_cast<uint4>(own);
    }
    __syncwarp();
    const int vectors = Config::kRows * args.slot_vectors;
    if (__all_sync(kFullWarp, inside)) {
      UnevenCopies::for_each(
          stage_at(args), records, vectors, args.slot_vectors, args.over_slot, [](int to, const char* source) {
            copy_async_once<false>(static_cast<std::uint32_t>(__cvta_generic_to_shared(tournament_memory() + to)),
                                   source);
          });
    } else {
      UnevenCopies::fetch_near_ends<T>(stage_at(args), records, vectors, args.slot_vectors, args.over_slot, input,
                                       args.last);
    }
  }

  // ------------------------------------------------------------------------------------------------------------------
  // To global memory.

  /// Writes the elements marked in their lanes: results.cuh.
  __device__ void write(const unsigned (&marks)[kMasks], int before) const;
};

}  // namespace rtopk::cuda
