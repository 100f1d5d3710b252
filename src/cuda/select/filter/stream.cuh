// The rows of a warp as a stream of pieces through shared memory, for cuda_filter.
//
// A piece begins at a multiple of 16 bytes of the global address, whatever the alignment of the row. Elements at the
// ends of a row that do not fill a vector are copied one by one. The vectors of a line are swizzled, so that neither
// the copies, which go along a line, nor the loads, which go across lines, conflict in a bank.
#pragma once

#include "cuda/runtime/async_copy.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/element.cuh"
#include "cuda/select/filter/threshold.cuh"
#include "plan/select/tuning_filter.hpp"

namespace rtopk::cuda {

template <class T>
__device__ const T* row_of(const SelectArguments& args, std::int64_t number) {
  return static_cast<const T*>(args.input) + number * args.stride;
}

template <class T>
class FilterStream {
 public:
  using Config = FilterConfig<T>;
  using Line = FilterLine<T>;

  __device__ FilterStream(const SelectArguments& args, char* ring, std::int64_t begin, std::int64_t end)
      : args_(args), ring_(ring), end_(end) {
    const int line = lane() / 8;
    const int place = 128 * line + 16 * ((lane() % 8) ^ line);
    offset_ = place;
    restart(begin);
  }

  /// Restarts the copies at the beginning of a row.
  __device__ void restart(std::int64_t row) {
    wait_for_copies<0>();
    __syncwarp();
    next_row_ = row;
    set_row();
    stage_ = 0;
#pragma unroll
    for (int stage = 0; stage < Config::kStages - 1; ++stage) fetch(stage);
  }

  /// Waits for the next piece, and starts a copy into the place of the last one.
  __device__ void advance() {
    wait_for_copies<Config::kStages - 2>();
    __syncwarp();
    piece_at_ = stage_ * Config::kPieceBytes;
    fetch(stage_ == 0 ? Config::kStages - 1 : stage_ - 1);
    stage_ = stage_ == Config::kStages - 1 ? 0 : stage_ + 1;
  }

  __device__ void load(Line& line) const {
#pragma unroll
    for (int v = 0; v < Config::kLineVectors; ++v) {
      line.set(v, *reinterpret_cast<const uint4*>(ring_ + piece_at_ + lane() * Config::kLineBytes +
                                                  ((v ^ (lane() % 8)) * 16)));
    }
  }

  /// Address of this lane's line. XOR with j * sizeof(T) gives the address of element j: the swizzle is an XOR too.
  __device__ std::uint32_t line_at() const {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(ring_ + piece_at_)) + lane() * Config::kLineBytes +
           lane() % 8 * 16;
  }
  static __device__ void copy_element(std::uint32_t to, std::uint32_t line, int j) {
    const std::uint32_t from = line ^ static_cast<std::uint32_t>(j * static_cast<int>(sizeof(T)));
    core::KeyOf<T> bits;
    if constexpr (sizeof(T) == 8) {
      asm volatile("ld.shared.u64 %0, [%1]; st.shared.u64 [%2], %0;" : "=&l"(bits) : "r"(from), "r"(to) : "memory");
    } else if constexpr (sizeof(T) == 4) {
      asm volatile("ld.shared.u32 %0, [%1]; st.shared.u32 [%2], %0;" : "=&r"(bits) : "r"(from), "r"(to) : "memory");
    } else {
      asm volatile("ld.shared.u16 %0, [%1]; st.shared.u16 [%2], %0;" : "=&h"(bits) : "r"(from), "r"(to) : "memory");
    }
  }

  static __device__ T element(std::uint32_t line, int j) {
    const std::uint32_t from = line ^ static_cast<std::uint32_t>(j * static_cast<int>(sizeof(T)));
    core::KeyOf<T> bits;
    if constexpr (sizeof(T) == 8) {
      asm volatile("ld.shared.u64 %0, [%1];" : "=l"(bits) : "r"(from) : "memory");
    } else if constexpr (sizeof(T) == 4) {
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(from) : "memory");
    } else {
      asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(from) : "memory");
    }
    return std::bit_cast<T>(bits);
  }

  /// Elements before a row in its first piece. Only the lowest bits of addresses matter.
  __device__ int lead(std::int64_t number) const {
    const auto base = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(args_.input));
    const unsigned elements = static_cast<unsigned>(number) * static_cast<unsigned>(args_.stride);
    return static_cast<int>((base + elements * static_cast<unsigned>(sizeof(T))) % 16 / sizeof(T));
  }

  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }

  __device__ char* ring() const { return ring_; }
  __device__ std::int64_t end() const { return end_; }  ///< One past the last row.

 private:
  __device__ void set_row() {
    lead_ = lead(next_row_);
    left_ = lead_ + static_cast<int>(args_.cols);
    next_from_ = reinterpret_cast<const char*>(row_of<T>(args_, next_row_) - lead_);
  }

  __device__ void fetch(int stage) {
    if (next_row_ < end_) {
      char* to = ring_ + stage * Config::kPieceBytes;
      if (lead_ == 0 && left_ >= Config::kPiece) {
        const char* from = next_from_ + lane() * 16;
#pragma unroll
        for (int i = 0; i < Config::kLineVectors; ++i) {
          copy_async<16>(to + (offset_ ^ (i % 2 * 64)) + i * 512, from + i * 512);
        }
      } else {
        fetch_end(to);
      }
      next_from_ += Config::kPieceBytes;
      lead_ = 0;
      left_ -= Config::kPiece;
      if (left_ <= 0) {
        ++next_row_;
        set_row();
      }
    }
    commit_copies();
  }

  /// Copies the first or the last piece of a row.
  __device__ void fetch_end(char* to) const {
    constexpr int kVectors = 32 * Config::kLineVectors;
    const int first = lead_ > 0 ? 1 : 0;
    const int last = left_ / Config::kVector;  // one past the last whole vector, which may be in a later piece
    const char* from = next_from_ + lane() * 16;
#pragma unroll 1
    for (int i = 0; i < Config::kLineVectors; ++i) {
      const int vector = i * 32 + lane();
      if (vector >= first && vector < last) copy_async<16>(to + (offset_ ^ (i % 2 * 64)) + i * 512, from + i * 512);
    }
    if (first == 1 && lane() >= lead_ && lane() < min(left_, Config::kVector)) copy_element(to, lane());
    // A row may begin and end in the same vector.
    const bool ends = last >= first && last < kVectors;
    if (ends && lane() < left_ % Config::kVector) copy_element(to, last * Config::kVector + lane());
  }

  __device__ void copy_element(char* to, int element) const {
    const int vector = element / Config::kVector;
    const int line = vector / 8;
    char* place =
        to + 128 * line + 16 * ((vector % 8) ^ (line % 8)) + element % Config::kVector * static_cast<int>(sizeof(T));
    const T* from = reinterpret_cast<const T*>(next_from_) + element;
    if constexpr (sizeof(T) >= 4) {
      copy_async<sizeof(T)>(place, from);
    } else {
      *reinterpret_cast<T*>(place) = *from;
    }
  }

  const SelectArguments& args_;
  char* ring_;
  std::int64_t end_;
  int offset_;  ///< Of this lane's vector among the first 32 of a piece.
  int stage_ = 0;
  int piece_at_ = 0;  ///< Offset in the ring.

  // What is copied next.
  std::int64_t next_row_ = 0;
  const char* next_from_ = nullptr;
  int lead_ = 0;  ///< Elements of the piece before the row.
  int left_ = 0;  ///< Elements from the piece's start to the end of the row.
};

}  // namespace rtopk::cuda
