// Lists and writes the results of a tile of general rows: values, indices as the caller wants them, what fills a short
// row, and the kth value.
#pragma once

#include <bit>
#include <cstdint>

#include "core/rows.hpp"
#include "cuda/select/element.cuh"
#include "cuda/select/result_row.cuh"
#include "cuda/select/tournament/results.cuh"
#include "cuda/select/tournament/uneven/tile.cuh"

namespace rtopk::cuda {

template <class T, int G, int R, int K>
struct UnevenTournamentResults {
  using Tile = UnevenTournamentTile<T, G, R, K>;
  using Lists = TournamentResults<T, G, R, K>;
  using Arguments = UnevenTournamentArguments;

  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }
  static __device__ T* values_at(int lists_at) { return reinterpret_cast<T*>(tournament_memory() + lists_at); }
  static __device__ std::int32_t* places_at(int lists_at) {
    return reinterpret_cast<std::int32_t*>(tournament_memory() + lists_at + Lists::Lists::values_bytes(K));
  }
  static __device__ const TournamentRecord* records(int records_at) {
    return reinterpret_cast<const TournamentRecord*>(tournament_memory() + records_at);
  }
  static __device__ T loses(const RowRules& rules) {
    return std::bit_cast<T>(static_cast<core::KeyOf<T>>(rules.losing_bits));
  }
  /// Where a row begins, as it counts for its indices.
  static __device__ std::int64_t start_of(const Arguments& args, const TournamentRecord& record) {
    if (!core::exists(args.rules.ragged.offsets)) return record.start;
    return (record.vectors + record.lead - static_cast<const char*>(args.input)) / static_cast<std::int64_t>(sizeof(T));
  }

  static __device__ __noinline__ void order(int lists_at, int records_at, int k, bool smallest, bool magnitude) {
    Lists::order_results(
        values_at(lists_at), places_at(lists_at), k, smallest, [&](T value) { return compared(value, magnitude); },
        [&](int row) { return static_cast<int>(records(records_at)[row].results); });
  }

  /// The kth value of a row is the last of the results with the least key. A lane looks at those of a row.
  static __device__ __noinline__ void write_thresholds(const Arguments& args, int lists_at, int records_at,
                                                       std::int64_t first_row, int rows) {
    const int row = lane();
    if (row >= rows) return;
    const TournamentRecord record = records(records_at)[row];
    T kth = loses(args.rules);
    if (!record.is_short) {
      const T* values = values_at(lists_at) + row * static_cast<int>(args.k);
      auto least = core::max_key<T>;
#pragma unroll 1
      for (int i = 0; i < record.results; ++i) {
        const auto key = directed_key(compared(values[i], args.magnitude), args.smallest);
        if (key > least) continue;
        least = key;
        kth = values[i];
      }
    }
    static_cast<T*>(args.rules.thresholds)[first_row + row] = kth;
  }

  /// With indices that are mapped, or of few bits.
  static __device__ __noinline__ void write_mapped(const Arguments& args, int lists_at, int records_at,
                                                   std::int64_t first_row, int rows) {
    const auto k = static_cast<int>(args.k);
    const bool is_flat = core::exists(args.rules.ragged.offsets);
    const ResultRow<T> result(args, first_row);
#pragma unroll 1
    for (int i = lane(); i < rows * k; i += 32) {
      const int row = static_cast<int>(static_cast<unsigned>(i) * args.over_k >> 20);
      const TournamentRecord record = records(records_at)[row];
      if (i - row * k < record.results) {
        const auto map = core::RowMap::of(args.rules.map, args.rules.arrays, is_flat, first_row + row);
        result.write(i, values_at(lists_at)[i], map.index(start_of(args, record), places_at(lists_at)[i]));
      } else {
        result.write(i, loses(args.rules), -1);
      }
    }
  }

  template <class Index>
  static __device__ void write_columns(const Arguments& args, int lists_at, int records_at, std::int64_t first_row,
                                       int rows) {
    const auto k = static_cast<int>(args.k);
    const T fill = loses(args.rules);
    T* values = static_cast<T*>(args.values) + first_row * args.k;
    Index* indices = static_cast<Index*>(args.indices) + first_row * args.k;
#pragma unroll 2
    for (int i = lane(); i < rows * k; i += 32) {
      const int row = static_cast<int>(static_cast<unsigned>(i) * args.over_k >> 20);
      const TournamentRecord record = records(records_at)[row];
      const bool exists = i - row * k < record.results;
      if (args.values != nullptr) values[i] = exists ? values_at(lists_at)[i] : fill;
      if (args.indices != nullptr) {
        indices[i] = exists ? static_cast<Index>(start_of(args, record) + places_at(lists_at)[i]) : Index{-1};
      }
    }
  }
};

template <class T, int G, int R, int K>
__device__ void UnevenTournamentTile<T, G, R, K>::write(const unsigned (&marks)[kMasks], int before) const {
  using Results = UnevenTournamentResults<T, G, R, K>;
  const auto width = static_cast<int>(args.k);
  const int records = records_at(args);
  if (args.passes != nullptr && lane() < rows()) args.passes[first_row + lane()] = record(lane()).results > 0 ? 1 : 0;
  unsigned listed[kMasks];
#pragma unroll
  for (int i = 0; i < kMasks; ++i) listed[i] = results > 0 ? marks[i] : 0u;  // a list of one always has an element
  const int position = lane() / G * width + before;
  TournamentResults<T, G, R, K>::list(reinterpret_cast<const T*>(tournament_memory() + at), first_col, listed,
                                      Results::values_at(lists_at()) + position,
                                      Results::places_at(lists_at()) + position);
  __syncwarp();
  if (args.by_value) Results::order(lists_at(), records, width, args.smallest, args.magnitude);
  if (args.rules.thresholds != nullptr) Results::write_thresholds(args, lists_at(), records, first_row, rows());
  if (args.rules.map.kind != IndexKind::column || args.index_type == IndexType::u8 ||
      args.index_type == IndexType::u16) {
    Results::write_mapped(args, lists_at(), records, first_row, rows());
  } else if (args.index_type == IndexType::i64) {
    Results::template write_columns<std::int64_t>(args, lists_at(), records, first_row, rows());
  } else {
    Results::template write_columns<std::int32_t>(args, lists_at(), records, first_row, rows());
  }
}

}  // namespace rtopk::cuda
