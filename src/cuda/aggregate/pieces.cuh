// Splits long rows. A row with at least twice `piece` edges is split into pieces, whose sums are added up afterwards,
// in order. So the edges of a hub are spread over many warps.
//
// Nothing has to be counted beforehand. A long row of d edges that begins at edge s has d / piece pieces; the last one
// takes the remainder. Piece i has the slot s / piece + i, which no other row has. The row of a slot is found by a
// search in the row starts.
#pragma once

#include <cstdint>

#include "cuda/aggregate/arguments.hpp"
#include "cuda/runtime/lanes.cuh"

namespace rtopk::cuda {

__device__ inline std::int64_t index_at(const void* indices, bool wide, std::int64_t i) {
  if (wide) return __ldg(static_cast<const long long*>(indices) + i);
  return __ldg(static_cast<const int*>(indices) + i);
}

/// Where a row begins and ends. Clamped to the edges, even if the row starts are invalid.
struct RowRange {
  std::int64_t begin;
  std::int64_t end;

  [[nodiscard]] __device__ std::int64_t degree() const { return end - begin; }
};

__device__ inline RowRange range_of(const GraphView& graph, std::int32_t row) {
  const std::int64_t begin = index_at(graph.row_starts, graph.wide, row);
  const std::int64_t end = index_at(graph.row_starts, graph.wide, std::int64_t{row} + 1);
  const std::int64_t first = min(max(begin, std::int64_t{0}), graph.edges);
  return {first, max(first, min(end, graph.edges))};
}

__device__ inline bool is_long(const RowRange& range, int piece_shift) { return range.degree() >> piece_shift >= 2; }

/// The row that has `edge`: the last one that starts at or before it. All lanes pass the same edge; each probes one of
/// 32 places.
__device__ inline std::int32_t row_of(const GraphView& graph, std::int64_t edge, int lane) {
  std::int32_t low = 0;
  std::int32_t high = graph.rows;
  // Invariant: the row is in [low, high).
  while (high - low > 1) {
    const std::int32_t step = (high - low - 1) / 32 + 1;
    const std::int64_t probe = low + std::int64_t{lane + 1} * step;
    const bool behind = probe >= high || index_at(graph.row_starts, graph.wide, probe) > edge;
    const int first = __ffs(static_cast<int>(__ballot_sync(kFullWarp, behind))) - 1;
    low += first * step;
    high = min(high - low, step) + low;
  }
  return low;
}

/// Edges of a long row.
struct Piece {
  std::int64_t begin;
  std::int32_t edges;
  bool exists;
};

/// The piece of a row that has this slot, if there is one.
__device__ inline Piece piece_of(const RowRange& range, std::int32_t slot, int shift) {
  const std::int64_t pieces = range.degree() >> shift;
  const std::int64_t number = slot - (range.begin >> shift);
  const std::int64_t begin = range.begin + (number << shift);
  const std::int64_t end = number == pieces - 1 ? range.end : begin + (std::int64_t{1} << shift);
  return {begin, static_cast<std::int32_t>(end - begin), is_long(range, shift) && number >= 0 && number < pieces};
}

/// The last row that begins in a slot or before it. Records in slot_rows whether it is long and begins here, for
/// combine_kernel.
__device__ inline std::int32_t last_row_of(const AggregateArguments& args, std::int32_t slot, int lane) {
  const int shift = args.piece_shift;
  const std::int32_t row = row_of(args.graph, ((std::int64_t{slot} + 1) << shift) - 1, lane);
  if (lane == 0 && args.slot_rows != nullptr) {
    const RowRange range = range_of(args.graph, row);
    args.slot_rows[slot] = is_long(range, shift) && range.begin >> shift == slot ? row : -1;
  }
  return row;
}

}  // namespace rtopk::cuda
