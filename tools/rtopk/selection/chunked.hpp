// Selects from a matrix of any size, chunk by chunk, on the CPU or on a GPU.
#pragma once

#include <cstdint>
#include <functional>

#include <rtopk/select.hpp>

#include "matrix/source.hpp"
#include "selection/result_buffers.hpp"
#include "selection/row_files.hpp"

namespace rtopk::tool {

/// The results for rows [first, first + rows).
struct SelectedChunk {
  std::int64_t first = 0;
  std::int64_t rows = 0;
  const void* input = nullptr;             ///< These rows, without gaps, in host memory.
  const ResultBuffers* results = nullptr;  ///< In host memory.
};

/// Called for each chunk, from the first row to the last, on the thread that called select_in_chunks(). Its argument is
/// valid until it returns. Returns false to stop.
using TakeChunk = std::function<bool(const SelectedChunk&)>;

struct ChunkedRun {
  Plan plan;              ///< The plan of a whole chunk.
  double select_s = 0.0;  ///< Time of the selection alone; on a GPU, without copies.
};

/// `problem` describes the whole matrix, `traits` are those of its device. `chunk_rows`: rows in a chunk; 0: as
/// suits the device. `files` are those of general rows, if they are. Segments of a flat input are one chunk. Throws
/// Failure, or whatever `take` throws.
ChunkedRun select_in_chunks(MatrixSource& source, const Problem& problem, const Traits& traits, std::int64_t chunk_rows,
                            const TakeChunk& take, const RowFiles* files = nullptr);

/// The same for one kind of device.
ChunkedRun select_on_cpu(MatrixSource& source, const Problem& problem, const Traits& traits, std::int64_t chunk_rows,
                         const TakeChunk& take, const RowFiles* files);
ChunkedRun select_on_gpu(MatrixSource& source, const Problem& problem, const Traits& traits, std::int64_t chunk_rows,
                         const TakeChunk& take, const RowFiles* files);

/// The same problem for fewer rows.
[[nodiscard]] Plan plan_for_rows(const Problem& problem, const Traits& traits, std::int64_t rows);

}  // namespace rtopk::tool
