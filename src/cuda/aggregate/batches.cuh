// Which edges a warp takes. Successive rows go to a warp as one batch, a single stream of edges: loads for the next
// rows are in flight while rows end and begin, which matters if rows are short. A piece of a long row is a batch of its
// own.
#pragma once

#include <cstdint>

#include "cuda/aggregate/arguments.hpp"
#include "cuda/aggregate/pieces.cuh"

namespace rtopk::cuda {

__device__ inline unsigned bits_below(int n) { return n >= 32 ? ~0u : (1u << n) - 1u; }

/// A batch: rows whose edges are contiguous. Lane i knows where row `row` + i ends.
struct EdgeBatch {
  std::int64_t begin;
  std::int32_t edges;
  std::int32_t end;    ///< End of this lane's row, relative to `begin`.
  std::int32_t row;    ///< The row of lane 0.
  std::int32_t first;  ///< The lane of the first row, and one past the lane of the last.
  std::int32_t last;
  std::int32_t slot;   ///< Of a piece: where its sums go; -1: to the result.
  float piece_degree;  ///< Of a piece: the number of edges of the whole row.

  /// The number of edges of a row: from `row_begin` to `row_end`, or of the whole row if this is a piece of it.
  [[nodiscard]] __device__ float degree(int row_begin, int row_end) const {
    return slot >= 0 ? piece_degree : static_cast<float>(row_end - row_begin);
  }
};

/// Calls f(run) for every batch of warp `number`. `may_join`: a batch may have several rows.
///
/// A warp has either a slot or some short rows. With a slot it takes the piece of a long row at that slot, and the rows
/// that begin in the slot and are neither short nor long. Otherwise it takes all short rows among `rows_per_worker`, at
/// most 32. Slots come first, because they take longest: then no warp ends late.
template <class F>
__device__ void for_batches(const AggregateArguments& args, std::int32_t number, int lane, bool may_join, F&& f) {
  // The row of lane 0, modulo 2^32, so that one comparison detects rows before the first and past the last. The rows of
  // a slot are taken backwards, 32 at a time.
  unsigned first_row = number < args.slots
                           ? static_cast<unsigned>(last_row_of(args, number, lane) - 31)
                           : static_cast<unsigned>(number - args.slots) * static_cast<unsigned>(args.rows_per_worker);
  unsigned rest = ~0u;  // lanes whose rows were not taken yet
  // Little is kept from batch to batch: f needs the registers, and data that is read again is in the L1 cache.
  do {
    asm volatile("" : "+r"(number));  // keeps nothing that is derived from it in registers
    const bool in_slot = number < args.slots;
    const unsigned row = first_row + static_cast<unsigned>(lane);
    const bool exists = row < static_cast<unsigned>(args.graph.rows) && (in_slot || lane < args.rows_per_worker);
    const RowRange range = exists ? range_of(args.graph, static_cast<std::int32_t>(row)) : RowRange{0, 0};
    const std::int64_t slot_begin = std::int64_t{number} << args.piece_shift;
    const bool is_short = range.degree() <= args.short_edges;
    const bool whole = in_slot ? range.begin >= slot_begin && !is_short && !is_long(range, args.piece_shift) : is_short;
    const unsigned wholes = __ballot_sync(kFullWarp, exists && whole);
    const Piece piece = piece_of(range, number, args.piece_shift);
    const unsigned pieces = __ballot_sync(kFullWarp, in_slot && piece.exists);
    // A row joins the one before if both are taken and it begins where that one ends.
    const bool follows = range.begin == __shfl_up_sync(kFullWarp, range.end, 1) && may_join;
    const unsigned joined = __ballot_sync(kFullWarp, follows) & wholes & wholes << 1;

    const unsigned starts = ((wholes & ~joined) | pieces) & rest;
    rest = starts & (starts - 1);
    EdgeBatch batch;
    batch.row = static_cast<std::int32_t>(first_row);
    const std::int64_t first_begin = __shfl_sync(kFullWarp, range.begin, 0);
    if (rest == 0 && in_slot && first_begin > slot_begin) {
      // The rows before these are next. If all of these are empty, very many before them may be empty too; skip those.
      if (first_begin == __shfl_sync(kFullWarp, range.begin, 31)) {
        first_row = min(first_row, static_cast<unsigned>(row_of(args.graph, first_begin - 1, lane)) + 1);
      }
      first_row -= 32;
      rest = ~0u;
    }
    if (starts == 0) continue;
    batch.first = __ffs(static_cast<int>(starts)) - 1;
    batch.last = batch.first + __ffs(static_cast<int>(~(joined >> batch.first >> 1)));
    const bool is_piece = (pieces >> batch.first & 1u) != 0;
    const std::int64_t begin = is_piece ? piece.begin : range.begin;
    batch.begin = __shfl_sync(kFullWarp, begin, batch.first);
    batch.end = static_cast<std::int32_t>(begin - batch.begin) +
                (is_piece ? piece.edges : static_cast<std::int32_t>(range.degree()));
    batch.edges = __shfl_sync(kFullWarp, batch.end, batch.last - 1);
    batch.slot = is_piece ? number : -1;
    batch.piece_degree = __shfl_sync(kFullWarp, static_cast<float>(range.degree()), batch.first);
    f(batch);
  } while (rest != 0);
}

/// The nodes and weights of a batch's edges, read long before they are needed. Edges are taken in turns of n edges,
/// where n divides 32.
template <bool kWeighted>
class EdgeStream {
 public:
  __device__ EdgeStream(const GraphView& graph, const EdgeBatch& batch, int lane)
      : graph_(graph), batch_(batch), lane_(lane) {
    read(0);
  }

  /// Call it before the turn that begins with this edge.
  __device__ void begin_turn(int edge) {
    if (edge % 32 != 0) return;
    const bool exists = high_ == 0 && low_ < static_cast<unsigned>(graph_.nodes);
    nodes_ = exists ? static_cast<std::int32_t>(low_) : 0;  // node 0 is loaded instead, and not used
    exist_ = __ballot_sync(kFullWarp, exists);
    if constexpr (kWeighted) weights_ = next_weight_;
    read(edge + 32);
  }

  /// Node and weight of the edge with this number in the turn.
  [[nodiscard]] __device__ std::int32_t node(int number) const { return __shfl_sync(kFullWarp, nodes_, number); }
  [[nodiscard]] __device__ float weight(int number) const {
    return kWeighted ? __shfl_sync(kFullWarp, weights_, number) : 1.0f;
  }
  /// A bit for each edge of the turn, and for some after it.
  [[nodiscard]] __device__ unsigned exist() const { return exist_; }

  /// Shifts the following edges to the first lanes.
  __device__ void end_turn(int edges) {
    exist_ = edges < 32 ? exist_ >> edges : 0u;
    nodes_ = __shfl_sync(kFullWarp, nodes_, lane_ + edges);
    if constexpr (kWeighted) weights_ = __shfl_sync(kFullWarp, weights_, lane_ + edges);
  }

 private:
  /// Nothing uses the loaded data before its turn comes: until then the loads are in flight.
  __device__ void read(int edge) {
    const bool exists = edge + lane_ < batch_.edges;
    const std::int64_t at = batch_.begin + edge + lane_;
    const auto* words = static_cast<const unsigned*>(graph_.columns);
    low_ = ~0u;
    if (exists) low_ = __ldcs(words + (graph_.wide ? 2 * at : at));
    if (exists && graph_.wide) high_ = __ldcs(words + 2 * at + 1);
    if constexpr (kWeighted) {
      if (exists) next_weight_ = __ldcs(graph_.weights + at);
    }
  }

  const GraphView& graph_;
  const EdgeBatch& batch_;
  int lane_;
  unsigned low_ = 0;   ///< The column of the edge 32 ahead: its lower half,
  unsigned high_ = 0;  ///< and its upper half, which stays 0 if indices have 32 bits.
  float next_weight_ = 0.0f;
  std::int32_t nodes_ = 0;
  float weights_ = 0.0f;
  unsigned exist_ = 0;
};

}  // namespace rtopk::cuda
