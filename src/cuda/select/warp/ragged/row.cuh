// A short general row, held by G lanes of a warp: a row at any address whose length and k are its own.
//
// It lies in shared memory as it does in memory, copied as aligned vectors of 16 bytes, so its first element may be
// anywhere in the first vector. A lane holds R neighbouring elements. Past the end of the row it holds a value that
// loses against every element, so that rows of any length are searched alike: that value is written to shared memory,
// once, a vector at a time.
#pragma once

#include <bit>
#include <cstdint>

#include "core/rows.hpp"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/element.cuh"
#include "cuda/select/expectation.hpp"
#include "cuda/select/marks.cuh"
#include "cuda/select/row_numbers.cuh"
#include "cuda/select/warp/copy_row.cuh"
#include "plan/select/tuning_warp.hpp"

namespace rtopk::cuda {

struct RaggedArguments : SelectArguments {
  RowRules rules;
};

/// A row's shape, which is kept beside its elements.
struct alignas(16) RaggedRecord {
  std::int64_t start;
  std::uint16_t length;
  std::uint16_t results;
  std::uint16_t lead;  ///< Elements of the first vector that lie before the row.
  bool is_short;
};
static_assert(sizeof(RaggedRecord) == kRaggedRecordBytes);

template <class T, int G, int R>
struct RaggedRow {
  using Type = T;
  using Arguments = RaggedArguments;
  static constexpr int kElements = R;  ///< Of a lane.
  static constexpr bool kStopsEarly = false;
  using Config = RaggedConfig<T, G, R>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Group = LaneGroup<G>;
  using Marked = Marks<R>;
  using Bits = core::KeyOf<T>;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));

  const RaggedArguments& args;
  const T* elements;    ///< In shared memory.
  std::uint16_t* list;  ///< Places of results in this group's row.
  std::int64_t row;
  std::int64_t start;
  int length;
  int results;    ///< The row's k, or fewer if it is short. May be 0.
  bool is_short;  ///< It has no kth value.

  __device__ RaggedRow(const RaggedArguments& arguments, char* stage, std::uint16_t* places, std::int64_t number)
      : args(arguments), list(places), row(number) {
    const auto record = std::bit_cast<RaggedRecord>(*record_of(stage));
    start = record.start;
    length = record.length;
    results = record.results;
    is_short = record.is_short;
    T* slot = reinterpret_cast<T*>(slot_of(stage));
    elements = slot + record.lead;
    if (!args.magnitude) pad(slot, record.lead);
  }

  static __device__ int stage_bytes(const RaggedArguments&) { return Config::kRows * Config::kSlotBytes; }
  static __device__ void pad(const RaggedArguments&, char*) {}

  /// What is searched: an empty row is searched as one that has one element, and k = 0 as 1. Nothing is written for
  /// them.
  __device__ int cols() const { return max(length, 1); }
  __device__ int k() const { return max(results, 1); }
  __device__ Expectation expectation() const {
    if (length == args.cols && results == args.k) return args.expectation;
    return expectation_for(static_cast<float>(cols()), static_cast<float>(k()));
  }

  /// What is written as the number of passes.
  __device__ int passes_of(int passes) const { return results == 0 ? 0 : passes; }

  // ------------------------------------------------------------------------------------------------------------------
  // Elements, as they compare.

  static __device__ int col_of(int r) { return Group::lane() * R + r; }
  __device__ T at(int col) const { return compared(elements[col], args.magnitude); }
  __device__ T element_at(int r) const { return at(col_of(r)); }
  __device__ Value value_at(int r) const {
    if (col_of(r) >= length) return E::least();
    const Value value = E::value(element_at(r));
    return args.smallest ? E::reversed(value) : value;
  }
  __device__ Bits key_at(int r) const { return directed_key(element_at(r), args.smallest); }

  __device__ void load(Value (&x)[R]) const {
    const T* from = elements + col_of(0);
#pragma unroll
    for (int r = 0; r < R; ++r) x[r] = E::value(from[r]);
    if (args.magnitude) {
#pragma unroll
      for (int r = 0; r < R; ++r) x[r] = compared(x[r], true);
    }
    if (args.smallest) {
#pragma unroll
      for (int r = 0; r < R; ++r) x[r] = E::reversed(x[r]);
    }
    if (args.magnitude) {
      const int mine = length - col_of(0);
#pragma unroll
      for (int r = 0; r < R; ++r) x[r] = r < mine ? x[r] : E::least();
    }
  }

  /// 16-bit elements, two in a word. The row may begin in the middle of one.
  template <int kNumber>
  __device__ void load_words(unsigned (&words)[kNumber]) const {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(elements + col_of(0)));
    const unsigned shift = address % 4 * 8;
    const auto* from = static_cast<const unsigned*>(__cvta_shared_to_generic(address & ~3u));
#pragma unroll
    for (int i = 0; i < kNumber; ++i) words[i] = from[i];
    if (shift != 0) {
#pragma unroll
      for (int i = 0; i < kNumber; ++i) {
        words[i] = __funnelshift_r(words[i], i + 1 < kNumber ? words[i + 1] : from[kNumber], shift);
      }
    }
    if (!args.magnitude) return;
    const unsigned loses = losing_bits() * 0x10001u;
    const int mine = length - col_of(0);
#pragma unroll
    for (int i = 0; i < kNumber; ++i) {
      const unsigned kept = 2 * i + 1 < mine ? 0x7fff7fffu : 2 * i < mine ? 0x7fffu : 0u;
      const unsigned past = 2 * i + 1 < mine ? 0u : 2 * i < mine ? 0xffff0000u : 0xffffffffu;
      words[i] = (words[i] & kept) | (loses & past);
    }
  }

  /// What a lane holds past the end of the row is never among the k best, since it has the last places too.
  struct Own {
    static __device__ Marks<R> of(const Marks<R>& marks) { return marks; }
    static __device__ Marks<R> inside_of(const RaggedRow& row) { return row.inside(); }
  };
  static __device__ Own own() { return {}; }
  __device__ Marks<R> inside() const { return Marks<R>::first(cols() - col_of(0)); }
  static __device__ bool has_foreign_first() { return false; }
  static __device__ bool has_foreign_last() { return false; }
  __device__ bool is_whole(int r) const { return col_of(r) < length; }

  // ------------------------------------------------------------------------------------------------------------------
  // Copies from memory and to it.

  static __device__ core::RowShape shape_of(const RaggedArguments& args, std::int64_t number) {
    return core::row_shape(args.rules.ragged, args.rules.arrays, args.cols, args.k, number);
  }
  static __device__ char* slot_of(char* stage) { return stage + Group::index_in_warp() * Config::kSlotBytes; }
  static __device__ uint4* record_of(char* stage) {
    return reinterpret_cast<uint4*>(slot_of(stage) + Config::kSlotBytes - kRaggedRecordBytes);
  }

  /// Starts to copy a row, and keeps its shape.
  static __device__ void fetch(const RaggedArguments& args, char* stage, std::int64_t number) {
    const core::RowShape shape = shape_of(args, number);
    const std::int64_t first = first_element(args, args.rules, number, shape.start);
    const T* row = static_cast<const T*>(args.input) + first;
    const auto lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(T));
    const int end = shape.length > 0 ? lead + static_cast<int>(shape.length) : 0;
    const int vectors = (end + kVector - 1) / kVector;
    if (Group::lane() == 0) {
      *record_of(stage) = std::bit_cast<uint4>(RaggedRecord{shape.start, static_cast<std::uint16_t>(shape.length),
                                                            static_cast<std::uint16_t>(shape.k),
                                                            static_cast<std::uint16_t>(lead), shape.is_short});
    }
    copy_row<G, Config::kCopies>(reinterpret_cast<T*>(slot_of(stage)), row - lead, lead, end, (first < lead),
                                 (first - lead + vectors * kVector > input_elements(args, args.rules)));
  }

  __device__ void write_dense(const Marks<R>& chosen) const {
    write_matrix_row(static_cast<T*>(args.dense) + row * args.cols, chosen, [&](int place) { return elements[place]; });
  }
  __device__ void write_mask(const Marks<R>& chosen) const {
    write_matrix_row(args.mask + row * args.cols, chosen, [](int) { return std::uint8_t{1}; });
  }

 private:
  /// The bits of a value that loses against every element, unless they compare by magnitude.
  __device__ Bits losing_bits() const {
    if constexpr (core::is_floating<T>) {
      constexpr Bits infinity = core::ElementTraits<T>::infinity_bits;
      return args.smallest ? infinity : static_cast<Bits>(infinity | (Bits{1} << (8 * sizeof(Bits) - 1)));
    } else {
      return args.smallest ? 0x7fffffffu : 0x80000000u;
    }
  }

  /// Writes that value past the end of the row, as far as lanes read.
  __device__ void pad(T* slot, int lead) const {
    union {
      Bits ones[kVector];
      uint4 all;
    } loses;
#pragma unroll
    for (int i = 0; i < kVector; ++i) loses.ones[i] = losing_bits();
    const int end = lead + length;
    const int vectors = (end + kVector - 1) / kVector;
#pragma unroll 1
    for (int i = end + Group::lane(); i < vectors * kVector; i += G) reinterpret_cast<Bits*>(slot)[i] = loses.ones[0];
#pragma unroll 1
    for (int i = vectors + Group::lane(); i * kVector < lead + Config::kCols; i += G) {
      reinterpret_cast<uint4*>(slot)[i] = loses.all;
    }
    __syncwarp();
  }

  /// Zeros, and then the selected places.
  template <class X, class Selected>
  __device__ void write_matrix_row(X* out, const Marks<R>& chosen, Selected selected) const {
#pragma unroll 1
    for (int col = Group::lane(); col < static_cast<int>(args.cols); col += G) out[col] = X{};
    __syncwarp();
    if (results == 0) return;
    chosen.for_each([&](int, int, int r) { out[start + col_of(r)] = selected(col_of(r)); });
  }
};

}  // namespace rtopk::cuda
