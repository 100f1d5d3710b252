// Sizes of the search that blocks of a cluster make together, for the plan and for the kernels.
#pragma once

namespace rtopk::cuda {

inline constexpr int kMaxParts = 8;  ///< Blocks that share a row. Every device with clusters allows this many.
inline constexpr int kLogBins = 8;
inline constexpr int kBins = 1 << kLogBins;
inline constexpr int kMaxShown = 128;  ///< Candidates that the blocks show each other.

}  // namespace rtopk::cuda
