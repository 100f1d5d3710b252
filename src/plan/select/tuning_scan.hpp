// The config of cuda_scan, for the plan and for the launch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "plan/select/tuning_long_rows.hpp"

namespace rtopk::cuda {

inline constexpr int kScanMaxThreads = 1024;
/// Vectors of 16 bytes that a thread has at a time. 16-bit elements are searched as f32: more would not fit in
/// registers.
template <int kElementBytes>
inline constexpr int kScanLoads = kElementBytes == 2 ? 2 : 4;

struct ScanLaunch {
  std::int32_t threads;
  std::int64_t blocks;
  std::size_t shared_bytes;
  bool held;  ///< The row is read once and stays in the registers of the block.
};

/// Vectors of 16 bytes that cover a row; one more if the row may begin inside a vector.
template <int kElementBytes>
constexpr std::int64_t scan_vectors(std::int64_t cols, bool aligned) {
  constexpr std::int64_t kVector = 16 / kElementBytes;
  return (cols + kVector - 1) / kVector + (aligned ? 0 : 1);
}

/// The config for blocks of `threads` threads, a multiple of 32 up to kScanMaxThreads. `aligned`: all rows begin at a
/// multiple of 16 bytes.
template <int kElementBytes>
constexpr ScanLaunch scan_launch(std::int64_t rows, std::int64_t cols, std::int32_t threads, bool aligned) {
  struct Bytes {
    char bytes[kElementBytes];
  };
  constexpr std::int64_t kMaxBlocks = 0x7fffffff;
  ScanLaunch config{};
  config.threads = threads;
  config.blocks = std::clamp(rows, std::int64_t{1}, kMaxBlocks);
  config.shared_bytes = RadixDigits<kElementBytes>::kSharedBytes + WriterConfig<Bytes>::shared_bytes(threads);
  config.held = scan_vectors<kElementBytes>(cols, aligned) <= std::int64_t{kScanLoads<kElementBytes>} * threads;
  return config;
}

/// As few threads as hold the row in registers, if 1024 threads can. The plan does not know the address of the matrix.
/// If it is not aligned to 16 bytes, rows that only just fit are read again in every pass.
template <int kElementBytes>
constexpr ScanLaunch scan_launch(std::int64_t rows, std::int64_t cols) {
  const bool aligned = cols * kElementBytes % 16 == 0;
  const std::int64_t vectors = scan_vectors<kElementBytes>(cols, aligned);
  const std::int64_t wanted = (vectors + kScanLoads<kElementBytes> - 1) / kScanLoads<kElementBytes>;
  const std::int64_t threads = (std::min(wanted, std::int64_t{kScanMaxThreads}) + 31) / 32 * 32;
  return scan_launch<kElementBytes>(rows, cols, static_cast<std::int32_t>(threads), aligned);
}

}  // namespace rtopk::cuda
