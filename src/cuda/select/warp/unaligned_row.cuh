// A row at any address, held by G lanes of a warp. It lies in shared memory as it does in memory, copied as aligned vectors
// of 16 bytes, so its first element may be anywhere in the first vector.
//
// Lanes read words of 4 bytes (8 for f64), `stride` words apart, which is odd or twice an odd number to avoid bank
// conflicts. Every lane reads the same number of words. The last lanes begin earlier than their stride says, so that
// nothing past the end of the row is read, and what an earlier lane has too is no element of their own: its marks are
// cleared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/element.cuh"
#include "cuda/select/marks.cuh"
#include "cuda/select/warp/copy_row.cuh"
#include "plan/select/tuning_warp.hpp"

namespace rtopk::cuda {

template <class T, int G, int R>
struct UnalignedRow {
  using Type = T;
  using Arguments = SelectArguments;
  static constexpr int kElements = R;  ///< Of a lane.
  static constexpr bool kStopsEarly = true;
  using Config = UnalignedConfig<T, G, R>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Group = LaneGroup<G>;
  using Marked = Marks<R>;
  using Word = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static constexpr int kPerWord = Config::kPerWord;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));

  const SelectArguments& args;
  char* slot;           ///< The row's vectors in shared memory.
  std::uint16_t* list;  ///< Columns of this group's row.
  std::int64_t row;
  int first;  ///< The column of the lane's first element; -1: the first half of its first word lies before the row.

  __device__ UnalignedRow(const SelectArguments& arguments, char* stage, std::uint16_t* columns, std::int64_t number)
      : args(arguments),
        slot(stage + Group::index_in_warp() * Config::slot_bytes(arguments.cols)),
        list(columns),
        row(number) {
    const int odd = lead(row) % kPerWord;
    const int begin = Group::lane() * Config::stride_words(cols());
    first = min(begin, words(odd) - Config::kWords) * kPerWord - odd;
  }

  static __device__ int stage_bytes(const SelectArguments& args) {
    return Config::kRows * Config::slot_bytes(args.cols);
  }
  static __device__ void pad(const SelectArguments&, char*) {}

  __device__ int cols() const { return static_cast<int>(args.cols); }
  __device__ int k() const { return static_cast<int>(args.k); }
  __device__ const Expectation& expectation() const { return args.expectation; }
  static __device__ int passes_of(int passes) { return passes; }

  // ------------------------------------------------------------------------------------------------------------------
  // Elements.

  /// Elements of a row's first vector that lie before the row.
  __device__ int lead(std::int64_t number) const { return lead_of(args, number); }
  static __device__ int lead_of(const SelectArguments& args, std::int64_t number) {
    const auto address = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(args.input)) +
                         static_cast<std::uint32_t>(number * args.stride) * static_cast<std::uint32_t>(sizeof(T));
    return static_cast<int>(address % 16 / sizeof(T));
  }
  /// Words of a row that begins in the middle of one (odd = 1), or does not.
  __device__ int words(int odd) const { return (odd + cols() + kPerWord - 1) / kPerWord; }

  __device__ int col_of(int r) const { return first + r; }
  __device__ T at(int col) const { return (reinterpret_cast<const T*>(slot) + lead(row))[col]; }
  /// An element of the row `number`, which another group has.
  __device__ T at(int col, int group, std::int64_t number) const {
    const int distance = group - Group::index_in_warp();
    const auto* other = reinterpret_cast<const T*>(slot + distance * Config::slot_bytes(args.cols));
    return other[lead(number) + col];
  }

  /// The r-th element of this lane.
  __device__ T element_at(int r) const { return at(first + r); }
  __device__ Value value_at(int r) const {
    const Value value = E::value(element_at(r));
    return args.smallest ? E::reversed(value) : value;
  }
  __device__ core::KeyOf<T> key_at(int r) const { return directed_key(element_at(r), args.smallest); }

  template <int kNumber>
  __device__ void load_words(Word (&words)[kNumber]) const {
    const auto from =
        static_cast<std::uint32_t>(__cvta_generic_to_shared(slot)) + (lead(row) + first) * static_cast<int>(sizeof(T));
#pragma unroll
    for (int i = 0; i < kNumber; ++i) {
      if constexpr (sizeof(Word) == 8) {
        asm volatile("ld.shared.u64 %0, [%1];" : "=l"(words[i]) : "r"(from + 8 * i) : "memory");
      } else {
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(words[i]) : "r"(from + 4 * i) : "memory");
      }
    }
  }
  __device__ void load(Value (&x)[R]) const {
    static_assert(kPerWord == 1);
    Word words[R];
    load_words(words);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      T raw;
      memcpy(&raw, &words[r], sizeof(T));
      x[r] = E::value(raw);
    }
    if (args.smallest) {
#pragma unroll
      for (int r = 0; r < R; ++r) x[r] = E::reversed(x[r]);
    }
  }

  static __device__ bool is_padded() { return false; }
  static __device__ bool has_whole_vectors() { return true; }
  /// True if half of the lane's first word lies before the row.
  __device__ bool has_foreign_first() const { return first < 0; }
  /// True if half of the lane's last word lies past the end of the row.
  __device__ bool has_foreign_last() const { return first + R > cols(); }
  static __device__ bool is_whole(int) { return true; }

  /// Marks of the elements that are the lane's own.
  __device__ Marks<R> inside() const {
    const int stride = Config::stride_words(cols()) * kPerWord;
    const int begin = max(Group::lane() * stride - lead(row) % kPerWord, 0);
    const int end = min((Group::lane() + 1) * stride - lead(row) % kPerWord, cols());
    return Marks<R>::first(end - first).without(Marks<R>::first(begin - first));
  }
  struct Own {
    Marks<R> inside;
    __device__ Marks<R> of(const Marks<R>& marks) const { return marks & inside; }
    __device__ Marks<R> inside_of(const UnalignedRow&) const { return inside; }
  };
  __device__ Own own() const { return {inside()}; }

  // ------------------------------------------------------------------------------------------------------------------
  // Copies from memory and to it.

  static __device__ void fetch(const SelectArguments& args, char* stage, std::int64_t row) {
    const int lead = lead_of(args, row);
    const T* from = static_cast<const T*>(args.input) + row * args.stride - lead;
    const int end = lead + static_cast<int>(args.cols);
    T* slot = reinterpret_cast<T*>(stage + Group::index_in_warp() * Config::slot_bytes(args.cols));
    copy_row<G, Config::kCopies>(slot, from, lead, end, row == 0 && lead > 0,
                                 row == args.rows - 1 && end % kVector != 0);
  }

  __device__ void write_dense(const Marks<R>& chosen) const {
    Word words[Config::kWords];
    load_words(words);
    __syncwarp();  // before places change
    T* out_row = static_cast<T*>(args.dense) + row * args.cols;
    T* shifted = reinterpret_cast<T*>(slot + reinterpret_cast<std::uintptr_t>(out_row) % 16);
    const Marks<R> own = inside();
#pragma unroll
    for (int r = 0; r < R; ++r) {
      T raw;
      if constexpr (kPerWord == 2) {
        raw.bits = static_cast<std::uint16_t>(r % 2 == 0 ? words[r / 2] : words[r / 2] >> 16);
      } else {
        memcpy(&raw, &words[r], sizeof(T));
      }
      if (own.has(r)) shifted[first + r] = chosen.has(r) ? raw : T{};
    }
    __syncwarp();
    write_out<T>(out_row, cols());
  }

  __device__ void write_mask(const Marks<R>& chosen) const {
    __syncwarp();
    std::uint8_t* out_row = args.mask + row * args.cols;
    auto* shifted = reinterpret_cast<std::uint8_t*>(slot + reinterpret_cast<std::uintptr_t>(out_row) % 16);
    const Marks<R> own = inside();
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (own.has(r)) shifted[first + r] = static_cast<std::uint8_t>(chosen.has(r) ? 1 : 0);
    }
    __syncwarp();
    write_out<std::uint8_t>(out_row, cols());
  }

  /// Writes a row that lies in the slot with the alignment that it has in memory.
  template <class X>
  __device__ void write_out(X* out, int number) const {
    constexpr int kOf = 16 / static_cast<int>(sizeof(X));
    const auto lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(out) % 16 / sizeof(X));
    const X* from = reinterpret_cast<const X*>(slot);
    X* to = out - lead;
    const int end = lead + number;
#pragma unroll 1
    for (int at = Group::lane() * kOf; at < end; at += G * kOf) {
      if (at >= lead && at + kOf <= end) {
        *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + at);
      } else {
#pragma unroll 1
        for (int j = max(at, lead); j < min(at + kOf, end); ++j) to[j] = from[j];
      }
    }
  }
};

}  // namespace rtopk::cuda
