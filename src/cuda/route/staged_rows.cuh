// The rows of a warp on their way through shared memory, a piece of each at a time: copies read whole lines, and then
// each lane reads a row of its own.
#pragma once

#include "core/keys.hpp"
#include "cuda/route/launch.hpp"
#include "cuda/runtime/async_copy.cuh"
#include "plan/tuning_route.hpp"

namespace rtopk::cuda {

template <class T>
class StagedRows {
 public:
  static constexpr int kExperts = static_cast<int>(kLanePieceBytes / sizeof(T));  ///< Of a piece.

  __device__ StagedRows(const RouteArguments& args, int pieces, char* memory, int lane)
      : pieces_(pieces),
        row_bytes_(args.experts * static_cast<int>(sizeof(T))),
        at_(lane % kVectors * 16),
        row_(lane / kVectors),
        memory_(memory),
        own_(memory + lane * kLaneRowBytes) {}

  /// Begins with up to 32 rows, of which `total` pieces are read: after the last of a row from the first again.
  __device__ void begin(const void* rows, int count, int total) {
    source_ = static_cast<const char*>(rows) + std::int64_t{row_} * row_bytes_ + at_;
    rows_ = count;
    left_ = total;
    next_ = 0;
    stage_ = 0;
#pragma unroll
    for (int i = 0; i < kLaneStages; ++i) copy_next();
  }

  /// The lane's row in piece `number`, when it is there. Pieces are asked for in order, and given back by done().
  [[nodiscard]] __device__ const char* piece(int number) const {
    wait_for_copies<kLaneStages - 1>();
    __syncwarp();
    return own_ + number % kLaneStages * kStageBytes;
  }
  __device__ void done() {
    __syncwarp();
    copy_next();
  }

 private:
  static constexpr int kVectors = static_cast<int>(kLanePieceBytes / 16);  // of a row's piece
  static constexpr int kRowsAtOnce = 32 / kVectors;
  static constexpr int kStageBytes = static_cast<int>(kLaneStageBytes);
  // What is behind the last expert, one number or two.
  static constexpr std::uint32_t kMinusInfinity = sizeof(T) == 4
                                                      ? 0x80000000u | core::ElementTraits<T>::infinity_bits
                                                      : 0x10001u * (0x8000u | core::ElementTraits<T>::infinity_bits);

  __device__ void copy_next() {
    if (left_ > 0) {
      const int place = next_ * static_cast<int>(kLanePieceBytes);
      char* to = memory_ + stage_ * kStageBytes + row_ * static_cast<int>(kLaneRowBytes) + at_;
      if (at_ + place < row_bytes_) {
        const char* from = source_ + place;
        const auto target = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
#pragma unroll
        for (int i = 0; i < 32 / kRowsAtOnce; ++i) {
          if (row_ + i * kRowsAtOnce < rows_) {
            copy_async_once<false>(target + i * kRowsAtOnce * static_cast<int>(kLaneRowBytes),
                                   from + std::int64_t{i * kRowsAtOnce} * row_bytes_);
          }
        }
      } else {
#pragma unroll
        for (int i = 0; i < 32 / kRowsAtOnce; ++i) {
          *reinterpret_cast<uint4*>(to + i * kRowsAtOnce * static_cast<int>(kLaneRowBytes)) =
              uint4{kMinusInfinity, kMinusInfinity, kMinusInfinity, kMinusInfinity};
        }
      }
      --left_;
      next_ = next_ + 1 < pieces_ ? next_ + 1 : 0;
      stage_ = stage_ + 1 < kLaneStages ? stage_ + 1 : 0;
    }
    commit_copies();  // also if there is none: groups are counted
  }

  int pieces_;  ///< Of a row.
  int row_bytes_;
  int at_;   ///< What the lane copies of each piece, in bytes from its beginning,
  int row_;  ///< and of which rows: this one and every kRowsAtOnce-th.
  char* memory_;
  const char* own_;
  const char* source_ = nullptr;
  int rows_ = 0;
  int left_ = 0;   ///< Pieces that are still to be copied,
  int next_ = 0;   ///< the next one's place in the row,
  int stage_ = 0;  ///< and where it goes.
};

}  // namespace rtopk::cuda
