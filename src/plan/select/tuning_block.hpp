// The config of cuda_block's kernel, for the plan and for the kernel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/attributes.hpp"
#include "core/sizes.hpp"
#include "plan/select/tuning_parts.hpp"

namespace rtopk::cuda {

inline constexpr int kBlockMaxSorted = 128;  ///< Results that the kernel sorts by value, not of f64.
inline constexpr int kBlockMaxSmall = 32;    ///< Candidates that one warp sorts.

/// The sample of a row that gives the first thresholds, as ranks in the sorted sample, the best being 0. The kth value
/// lies between the two for about 99 rows of a hundred. If there are few rows, for all but one in two thousand, or in a
/// hundred thousand: the slowest row then takes longer than all others.
struct BlockSample {
  std::int32_t log_size;
  std::int32_t better_rank;  ///< Negative: no threshold on that side. Then all that reach the other one are candidates.
  std::int32_t worse_rank;   ///< Past the end: all elements reach it.
  std::int64_t candidates;   ///< Elements between the two, rarely more.
};

/// The largest sample: of rows in the shared memory of one block, and of rows that blocks share. These read theirs from
/// global memory, where every place costs a sector. f64 has fewer registers.
RTOPK_HD constexpr int log_most_sample(std::size_t element_bytes, bool is_shared) {
  return (is_shared ? 8 : 9) - (element_bytes == 8 ? 1 : 0);
}

/// `Real`: what it is computed in. `parts`: blocks that share a row. `of_one_threshold`: so few results always have one.
template <class Real = double>
RTOPK_HD BlockSample block_sample(std::int64_t cols, std::int64_t k, std::size_t element_bytes, std::int64_t rows,
                                  std::int64_t parts, std::int64_t of_one_threshold = 0) {
  constexpr std::int64_t kFewRows = 1024;
  constexpr std::int64_t kVeryFewRows = 256;
  const Real margin_deviations = rows > kFewRows       ? Real(2.5)
                                 : rows > kVeryFewRows ? Real(3.5)
                                                       : Real(4.5);  // of the rank
  // Of fewer results it is cheaper to list all candidates than to compare all elements with a second threshold.
  constexpr std::int64_t kOneThreshold = 8;
  BlockSample sample{};
  // Of shorter rows a large one would take longer than it saves.
  sample.log_size = std::min(cols < 4096 ? 7 : cols < 8192 ? 8 : 9, log_most_sample(element_bytes, parts > 1));
  const auto size = static_cast<Real>(1 << sample.log_size);
  const Real share = static_cast<Real>(k) / static_cast<Real>(std::max(cols, std::int64_t{1}));
  const Real rank = share * size;
  const Real margin = margin_deviations * std::sqrt(rank * (1 - share)) + 1;
  const bool has_one = k <= std::max(cols / kOneThreshold, of_one_threshold);
  sample.better_rank = has_one ? -1 : static_cast<std::int32_t>(std::floor(rank - margin));
  sample.worse_rank = static_cast<std::int32_t>(std::ceil(rank + margin));
  const auto ranks = static_cast<Real>(sample.worse_rank - std::max(sample.better_rank, -1));
  // A list that is too short costs several passes. Of few results it needs little room.
  const Real deviations = sample.better_rank < 0 ? 5 : 3;
  const Real most = (ranks + deviations * std::sqrt(ranks) + 2) / size * static_cast<Real>(cols) + 32;
  sample.candidates = static_cast<std::int64_t>(std::min(most, static_cast<Real>(cols)));
  return sample;
}

/// Threads of a block, and its shared memory: state, elements, list of element numbers.
struct BlockLayout {
  std::int64_t list_capacity;  ///< Elements.
  std::int64_t shared_bytes;
  std::int32_t threads;
  std::int32_t chunks;    ///< Of a thread. 0: the row is too short or too long.
  bool keeps_candidates;  ///< Nearly always, in registers; if not, the row is marked again.
};

/// `kGeneral`: for general rows. Their arguments take registers, so that blocks that share a row have fewer threads.
template <class T, bool kGeneral = false>
struct BlockConfig {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  /// A thread has neighbouring words, in chunks of 32.
  static constexpr int kWordBytes = sizeof(T) == 8 ? 8 : 4;
  static constexpr int kPerWord = kWordBytes / static_cast<int>(sizeof(T));
  static constexpr int kChunkWords = 32;
  static constexpr int kThreadsOfOneChunk = 320;
  /// Enough for nearly all rows that fit into shared memory, and few enough for registers.
  static constexpr int max_threads(int chunks) { return chunks == 1 ? kThreadsOfOneChunk : sizeof(T) == 4 ? 768 : 448; }
  /// Limits registers to 48 of a thread with one chunk (64 if the search stops early), 80 with two (72 of 16 bits); f64
  /// needs more.
  static constexpr int min_blocks(int chunks, bool stops_early) {
    return sizeof(T) == 8 ? 1 : chunks == 1 ? (stops_early ? 3 : 4) : 1024 / max_threads(chunks);
  }

  /// Lines of 32 candidates that a warp keeps in registers: as many as there are registers for. `plain`: an exact selection
  /// of full rows.
  static constexpr int candidate_lines(int chunks, bool plain) {
    if (sizeof(T) == 2) return plain ? 9 : chunks == 1 ? 8 : 6;
    return chunks == 1 ? 9 : 12;
  }

  /// Of blocks that share a row.
  static constexpr int kPartThreadsOfOneChunk = 448;
  static constexpr int max_part_threads(int chunks) {
    return chunks == 1 ? kPartThreadsOfOneChunk : sizeof(T) == 4 ? (kGeneral ? 704 : 768) : 448;
  }
  /// Limits registers to 72 of a thread, 80 with two chunks of 32 bits.
  static constexpr int min_part_blocks(int chunks) { return sizeof(T) == 8 ? 1 : 1024 / max_part_threads(chunks); }

  /// A multiple of a chunk's bytes, and no more than it takes: of general rows of 16384 columns of 32 bits, k 2048, whose
  /// arguments are in shared memory beside this, three blocks only just fit on a multiprocessor.
  static constexpr int kStateBytes = sizeof(T) == 8 ? 2048 : 1536;
  static constexpr int kPartStateBytes = sizeof(T) == 8 ? 6144 : 5120;
  /// The last thread reads a whole chunk, past the end of the row.
  static constexpr int kPaddingBytes = kChunkWords * kWordBytes;
  /// The most vectors of 16 bytes that a row touches, wherever it begins.
  static constexpr std::int64_t vectors(std::int64_t cols) { return (cols + std::int64_t{2} * kVector - 2) / kVector; }
  static constexpr std::int64_t elements_bytes(std::int64_t cols) { return vectors(cols) * 16 + kPaddingBytes; }

  /// Columns of every part but the last. Parts begin as far from a multiple of 16 bytes as the row.
  static constexpr std::int64_t part_cols(std::int64_t cols, std::int64_t parts) {
    return parts == 1 ? cols : core::ceil_div(cols, parts * kVector) * kVector;
  }
  /// The same for a general row. A short one stays in one part: others might end in its last vector, and copy what lies
  /// behind the row.
  static constexpr std::int64_t general_part_cols(std::int64_t cols, std::int64_t parts) {
    return cols < parts * parts * kVector ? cols : part_cols(cols, parts);
  }

  /// Threads that have all of so many vectors.
  static constexpr std::int64_t threads(std::int64_t number_of_vectors, int chunks) {
    const std::int64_t of_warp = std::int64_t{32} * chunks * kChunkWords * kWordBytes / 16;
    return core::ceil_div(number_of_vectors, of_warp) * 32;
  }

  /// `parts`: blocks that share a row.
  static BlockLayout layout(std::int64_t rows, std::int64_t cols, std::int64_t k, std::int64_t parts) {
    constexpr std::int64_t kMaxElements = 65535;  // the list has 16 bits for each
    constexpr std::int64_t kMinPartCols = 1024;
    BlockLayout layout{};
    const std::int64_t part = part_cols(cols, parts);
    const std::int64_t elements = vectors(part) * kVector;
    // The last vector of a shorter row could reach past the next row, out of the matrix.
    if (part < (parts == 1 ? kVector : kMinPartCols) || elements > kMaxElements) return layout;
    const auto threads_for = [&](int chunks) { return threads(vectors(part), chunks); };
    // Two chunks a thread where that leaves enough threads to hide the latency of shared memory.
    const int chunks = threads_for(1) <= (parts == 1 ? kThreadsOfOneChunk : kPartThreadsOfOneChunk) ? 1 : 2;
    if (threads_for(chunks) > (parts == 1 ? max_threads(chunks) : max_part_threads(chunks))) return layout;
    layout.chunks = chunks;
    layout.threads = static_cast<std::int32_t>(threads_for(chunks));
    // Results are listed too: all may be in one part. Candidates need not be divided evenly; a part with more does
    // without a list.
    const std::int64_t candidates = block_sample(cols, k, sizeof(T), rows, parts).candidates;
    constexpr std::int64_t kAlwaysRoomFor = 2048;
    const std::int64_t of_part = std::min(candidates, std::max(candidates / parts * 3 / 2, kAlwaysRoomFor));
    const std::int64_t listed = std::max(k, parts == 1 ? candidates : of_part);
    layout.list_capacity = core::ceil_div(std::min(listed, elements), std::int64_t{8}) * 8;
    layout.keeps_candidates = candidates <= std::int64_t{candidate_lines(chunks, !kGeneral)} * layout.threads;
    layout.shared_bytes =
        (parts == 1 ? kStateBytes : kPartStateBytes) + elements_bytes(part) + 2 * layout.list_capacity;
    return layout;
  }
};

}  // namespace rtopk::cuda
