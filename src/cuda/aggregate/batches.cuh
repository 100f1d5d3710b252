// Which edges a warp takes. Rows that follow each other go to a warp as a run, one stream of edges: what the next ones need is
// under way while rows end and begin, which matters where rows are short. A piece of a long row is a run of its own.
#pragma once

#include <cstdint>

#include "cuda/aggregate/arguments.hpp"
#include "cuda/aggregate/pieces.cuh"

namespace rtopk::cuda {

__device__ inline unsigned bits_below(int n) { return n >= 32 ? ~0u : (1u << n) - 1u; }

/// Rows whose edges follow each other; lane i knows where the row `row` + i ends.
struct Run {
  std::int64_t begin;
  std::int32_t edges;
  std::int32_t end;    ///< Of this lane's row, from `begin` on.
  std::int32_t row;    ///< Of lane 0.
  std::int32_t first;  ///< Lanes of the first row and behind the last.
  std::int32_t last;
  std::int32_t slot;   ///< Of a piece: where its sums go; -1: to the result.
  float piece_degree;  ///< Of a piece: edges of the whole row.

  /// Edges of a row from `row_begin` to `row_end`, all of them if this is a piece of it.
  [[nodiscard]] __device__ float degree(int row_begin, int row_end) const {
    return slot >= 0 ? piece_degree : static_cast<float>(row_end - row_begin);
  }
};

/// Calls f(run) for all that the warp of this number has to do. `may_join`: whether a run may have several rows.
///
/// It has a slot, with the piece of a long row whose place that is and the rows that begin there and are neither short nor long;
/// or all short rows of `rows_per_worker`, at most 32. Slots come first: what takes longest starts first, and no warp ends late.
template <class F>
__device__ void for_runs(const AggregateArguments& args, std::int32_t number, int lane, bool may_join, F&& f) {
  // The row of lane 0, modulo 2^32: rows before the first are as far away as those behind the last. The rows of a slot are
  // taken backwards, 32 at a time.
  unsigned first_row = number < args.slots
                           ? static_cast<unsigned>(last_row_of(args, number, lane) - 31)
                           : static_cast<unsigned>(number - args.slots) * static_cast<unsigned>(args.rows_per_worker);
  unsigned rest = ~0u;  // lanes whose rows were not taken yet
  // Little is kept from run to run: f needs the registers, and what is read again is in the nearest cache.
  do {
    asm volatile("" : "+r"(number));  // nothing that follows from it is kept
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
    // A row joins the one before if both are taken and it begins where that ends.
    const bool follows = range.begin == __shfl_up_sync(kFullWarp, range.end, 1) && may_join;
    const unsigned joined = __ballot_sync(kFullWarp, follows) & wholes & wholes << 1;

    const unsigned starts = ((wholes & ~joined) | pieces) & rest;
    rest = starts & (starts - 1);
    Run run;
    run.row = static_cast<std::int32_t>(first_row);
    const std::int64_t first_begin = __shfl_sync(kFullWarp, range.begin, 0);
    if (rest == 0 && in_slot && first_begin > slot_begin) {
      // The rows before these are next. Where all of these are empty, so may be very many, which are left out.
      if (first_begin == __shfl_sync(kFullWarp, range.begin, 31)) {
        first_row = min(first_row, static_cast<unsigned>(row_of(args.graph, first_begin - 1, lane)) + 1);
      }
      first_row -= 32;
      rest = ~0u;
    }
    if (starts == 0) continue;
    run.first = __ffs(static_cast<int>(starts)) - 1;
    run.last = run.first + __ffs(static_cast<int>(~(joined >> run.first >> 1)));
    const bool is_piece = (pieces >> run.first & 1u) != 0;
    const std::int64_t begin = is_piece ? piece.begin : range.begin;
    run.begin = __shfl_sync(kFullWarp, begin, run.first);
    run.end = static_cast<std::int32_t>(begin - run.begin) +
              (is_piece ? piece.edges : static_cast<std::int32_t>(range.degree()));
    run.edges = __shfl_sync(kFullWarp, run.end, run.last - 1);
    run.slot = is_piece ? number : -1;
    run.piece_degree = __shfl_sync(kFullWarp, static_cast<float>(range.degree()), run.first);
    f(run);
  } while (rest != 0);
}

/// The nodes and the weights of a run's edges, which are read long before they are needed. Edges are taken in turns of so many
/// that 32 is a multiple of it.
template <bool kWeighted>
class EdgeStream {
 public:
  __device__ EdgeStream(const GraphView& graph, const Run& run, int lane) : graph_(graph), run_(run), lane_(lane) {
    read(0);
  }

  /// Before the turn that begins with this edge.
  __device__ void begin_turn(int edge) {
    if (edge % 32 != 0) return;
    const bool exists = high_ == 0 && low_ < static_cast<unsigned>(graph_.nodes);
    nodes_ = exists ? static_cast<std::int32_t>(low_) : 0;  // another one is read, and not used
    exist_ = __ballot_sync(kFullWarp, exists);
    if constexpr (kWeighted) weights_ = next_weight_;
    read(edge + 32);
  }

  /// Of the edge with this number in the turn.
  [[nodiscard]] __device__ std::int32_t node(int number) const { return __shfl_sync(kFullWarp, nodes_, number); }
  [[nodiscard]] __device__ float weight(int number) const {
    return kWeighted ? __shfl_sync(kFullWarp, weights_, number) : 1.0f;
  }
  /// A bit for each edge of the turn, and of some behind it.
  [[nodiscard]] __device__ unsigned exist() const { return exist_; }

  /// What comes next moves to the first lanes.
  __device__ void end_turn(int edges) {
    exist_ = edges < 32 ? exist_ >> edges : 0u;
    nodes_ = __shfl_sync(kFullWarp, nodes_, lane_ + edges);
    if constexpr (kWeighted) weights_ = __shfl_sync(kFullWarp, weights_, lane_ + edges);
  }

 private:
  /// Nothing looks at what is read before the turn comes: it is on its way until then.
  __device__ void read(int edge) {
    const bool exists = edge + lane_ < run_.edges;
    const std::int64_t at = run_.begin + edge + lane_;
    const auto* words = static_cast<const unsigned*>(graph_.columns);
    low_ = ~0u;
    if (exists) low_ = __ldcs(words + (graph_.wide ? 2 * at : at));
    if (exists && graph_.wide) high_ = __ldcs(words + 2 * at + 1);
    if constexpr (kWeighted) {
      if (exists) next_weight_ = __ldcs(graph_.weights + at);
    }
  }

  const GraphView& graph_;
  const Run& run_;
  int lane_;
  unsigned low_ = 0;   ///< The column of the edge 32 ahead, by its halves.
  unsigned high_ = 0;  ///< Stays 0 in graphs with 32-bit indices.
  float next_weight_ = 0.0f;
  std::int32_t nodes_ = 0;
  float weights_ = 0.0f;
  unsigned exist_ = 0;
};

}  // namespace rtopk::cuda
