// Kernel arguments of an aggregation.
#pragma once

#include <cstdint>

namespace rtopk::cuda {

/// The graph whose rows a kernel walks: A, or A^T for a gather.
struct GraphView {
  const void* row_starts = nullptr;
  const void* columns = nullptr;
  const float* weights = nullptr;  ///< Null: all are 1.
  std::int64_t edges = 0;
  std::int32_t rows = 0;
  std::int32_t nodes = 0;  ///< Valid columns are 0 to nodes - 1.
  bool wide = false;       ///< 64-bit starts and columns.
};

struct AggregateArguments {
  GraphView graph;
  const void* degree_starts = nullptr;  ///< gather of a mean: the row starts of A, which give the degrees.

  const void* values = nullptr;
  const void* selectors = nullptr;
  const void* gradient = nullptr;
  void* result = nullptr;
  float* atomic_sums = nullptr;  ///< scatter: where the sums are made; the result itself if that is f32.

  // Pieces of long rows: see pieces.cuh. Which warp takes which rows: see batches.cuh.
  std::int32_t slots = 0;
  float* partial_sums = nullptr;      ///< A row of sums for every slot.
  std::int32_t* slot_rows = nullptr;  ///< The row that begins in this slot, or -1. Null: pieces need no sum.
  std::int32_t piece_shift = 0;       ///< log2 of a piece's edges.
  std::int32_t short_edges = 0;       ///< A row of more edges is taken with the slot where it begins.

  std::int32_t rows_per_worker = 1;
  std::int32_t cols = 0;
  std::int32_t k = 0;
  std::int32_t first_element = 0;  ///< stream_scatter: the first element of a sweep,
  std::int32_t last_element = 0;   ///< and one past its last.
  std::int32_t window = 0;         ///< stream: columns that a warp has sums for.
  bool mean = false;
  bool writes_quads = false;  ///< stream: four columns of a result row can be stored at once.
  bool copies_quads = false;  ///< stream_scatter: rows of dY can be copied by 16 bytes.
};

}  // namespace rtopk::cuda
