// The config of the kernels for long rows (cuda_radix, cuda_scan), for the plan and for the kernels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rtopk::cuda {

/// Config of the code by which a block writes the selected elements.
template <class T>
struct WriterConfig {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  static constexpr int kLoads = 2;                         ///< Vectors that a thread has at a time.
  static constexpr int kWarpTile = 32 * kLoads * kVector;  ///< Elements that a warp has at a time.

  /// Shared memory for the list of each warp.
  static constexpr std::size_t shared_bytes(int threads) {
    return static_cast<std::size_t>(threads / 32) * kWarpTile * sizeof(std::uint16_t);
  }
};

/// How a key is split into digits, most significant first.
template <int kKeyBytes>
struct RadixDigits {
  static constexpr int kKeyBits = 8 * kKeyBytes;
  static constexpr int kWidth = kKeyBits == 16 ? 8 : 11;
  static constexpr int kPasses = (kKeyBits + kWidth - 1) / kWidth;
  static constexpr int kBins = 1 << kWidth;
  static constexpr int kLastWidth = kKeyBits - (kPasses - 1) * kWidth;
  static constexpr int kLastBins = 1 << kLastWidth;
  static constexpr std::size_t kSharedBytes = kBins * sizeof(std::uint32_t);
  /// Bits below the digit of a pass.
  static constexpr int shift(int pass) { return pass == kPasses - 1 ? 0 : kKeyBits - (pass + 1) * kWidth; }
  static constexpr int width(int pass) { return pass == kPasses - 1 ? kLastWidth : kWidth; }
};

}  // namespace rtopk::cuda
