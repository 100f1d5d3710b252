// Which edges a warp takes. Short rows go whole to a warp. A row of twice `piece` edges or more is split into pieces, whose
// sums are added up afterwards, in order: a hub costs no more time than its edges do.
//
// Nothing has to be counted beforehand for that. A long row from edge s on, of d edges, has d / piece pieces (the last takes
// the remainder), and piece i has the slot s / piece + i: no other row has it, and the row of a slot's first multiple is
// found by a search in the row starts.
#pragma once

#include <cstdint>

#include "aggregate_call.hpp"

namespace rtopk::cuda {

inline constexpr unsigned kWholeWarp = 0xffffffffu;

__device__ inline std::int64_t index_at(const void* indices, bool wide, std::int64_t i) {
  if (wide) return __ldg(static_cast<const long long*>(indices) + i);
  return __ldg(static_cast<const int*>(indices) + i);
}

/// Edges of one row.
struct Piece {
  std::int64_t begin;
  std::int32_t row;
  std::int32_t edges;
  float degree;       ///< Edges of the whole row.
  std::int32_t slot;  ///< Where its sums go; -1 if it is the whole row.
  bool exists;
};

/// Where a row begins and ends, within the edges whatever the row starts say.
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

/// The row that has `edge`: the last that starts at or before it. All lanes ask for the same; each looks at a 32nd.
__device__ inline std::int32_t row_of(const GraphView& graph, std::int64_t edge, int lane) {
  std::int32_t low = 0;
  std::int32_t high = graph.rows;
  while (high - low > 1) {
    const std::int32_t step = (high - low - 1) / 32 + 1;
    const std::int64_t probe = low + std::int64_t{lane + 1} * step;
    const bool behind = probe >= high || index_at(graph.row_starts, graph.wide, probe) > edge;
    const int first = __ffs(static_cast<int>(__ballot_sync(kWholeWarp, behind))) - 1;
    low += first * step;
    high = min(high - low, step) + low;
  }
  return low;
}

/// A row as one piece, if it is short.
__device__ inline Piece whole_row(const AggregateCall& call, std::int32_t row) {
  const RowRange range = range_of(call.graph, row);
  const std::int64_t degree = range.degree();
  return {range.begin,
          row,
          static_cast<std::int32_t>(degree),
          static_cast<float>(degree),
          -1,
          !is_long(range, call.piece_shift)};
}

/// The piece of a long row that has this slot. The row that begins here is remembered for the kernel that adds up.
__device__ inline Piece piece_in(const AggregateCall& call, std::int32_t slot, int lane) {
  const int shift = call.piece_shift;
  const std::int64_t last_of_slot = ((std::int64_t{slot} + 1) << shift) - 1;
  const std::int32_t row = row_of(call.graph, last_of_slot, lane);
  const RowRange range = range_of(call.graph, row);
  const std::int64_t pieces = range.degree() >> shift;
  const std::int64_t number = slot - (range.begin >> shift);
  const bool exists = is_long(range, shift) && number >= 0 && number < pieces;
  if (lane == 0 && call.slot_rows != nullptr) call.slot_rows[slot] = exists && number == 0 ? row : -1;
  const std::int64_t begin = range.begin + (number << shift);
  const std::int64_t end = number == pieces - 1 ? range.end : begin + (std::int64_t{1} << shift);
  return {begin, row, static_cast<std::int32_t>(end - begin), static_cast<float>(range.degree()), slot, exists};
}

/// Calls f(piece) for all that this warp has to do. Slots come first: what takes longest starts first.
template <class F>
__device__ void for_pieces(const AggregateCall& call, std::int32_t warp, int lane, F&& f) {
  const bool in_slots = warp < call.slots;
  std::int32_t next = in_slots ? warp : (warp - call.slots) * call.rows_per_worker;
  const std::int32_t end = in_slots ? warp + 1 : min(next + call.rows_per_worker, call.graph.rows);
  for (; next < end; ++next) {
    const Piece piece = in_slots ? piece_in(call, next, lane) : whole_row(call, next);
    if (piece.exists) f(piece);
  }
}

/// The node that an edge of a piece names; -1 behind the last edge, and where there is no such node.
__device__ inline std::int32_t column_at(const GraphView& graph, const Piece& piece, int edge) {
  if (edge >= piece.edges) return -1;
  const std::int64_t at = piece.begin + edge;
  const std::int64_t column = graph.wide ? __ldcs(static_cast<const long long*>(graph.columns) + at)
                                         : __ldcs(static_cast<const int*>(graph.columns) + at);
  return column >= 0 && column < graph.nodes ? static_cast<std::int32_t>(column) : -1;
}

/// The weight of an edge of a piece, of a graph that has weights; 0 behind the last edge.
__device__ inline float weight_at(const GraphView& graph, const Piece& piece, int edge) {
  return edge < piece.edges ? __ldcs(graph.weights + piece.begin + edge) : 0.0f;
}

}  // namespace rtopk::cuda
