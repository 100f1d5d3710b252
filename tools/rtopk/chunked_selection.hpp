// Selects from a matrix of any size, chunk by chunk, on the CPU or on a GPU.
#pragma once

#include <cstdint>
#include <functional>

#include <rtopk/select.hpp>

#include "matrix_source.hpp"
#include "result_buffers.hpp"

namespace rtopk::tool {

/// What was selected from rows [first, first + rows).
struct SelectedChunk {
  std::int64_t first = 0;
  std::int64_t rows = 0;
  const void* input = nullptr;             ///< These rows, tight, in host memory.
  const ResultBuffers* results = nullptr;  ///< In host memory.
};

/// Called for one chunk after the other, from the first row to the last, on the thread that selects. What it is given is
/// valid until it returns. False: that is enough, the rest is left out.
using TakeChunk = std::function<bool(const SelectedChunk&)>;

struct ChunkedRun {
  Plan plan;              ///< Of a whole chunk.
  double select_s = 0.0;  ///< Of selecting alone; on a GPU without the copies.
};

/// `problem` describes the whole matrix, `traits` are those of its device. `chunk_rows`: how many rows at a time; 0: as
/// many as are good for the device. Throws Failure, or whatever `take` throws.
ChunkedRun select_in_chunks(MatrixSource& source, const Problem& problem, const Traits& traits, std::int64_t chunk_rows,
                            const TakeChunk& take);

/// How the two devices do it.
ChunkedRun select_on_cpu(MatrixSource& source, const Problem& problem, const Traits& traits, std::int64_t chunk_rows,
                         const TakeChunk& take);
ChunkedRun select_on_gpu(MatrixSource& source, const Problem& problem, const Traits& traits, std::int64_t chunk_rows,
                         const TakeChunk& take);

/// The same problem for fewer rows.
[[nodiscard]] Plan plan_for_rows(const Problem& problem, const Traits& traits, std::int64_t rows);

}  // namespace rtopk::tool
