// A short general row, held by G lanes of a warp: a row at any address whose length and k are its own.
//
// It lies in shared memory as it does in memory, copied as aligned vectors of 16 bytes, so its first element may be
// anywhere in the first vector. A lane holds R neighbouring elements. Past the end of the row it holds a value that
// loses against every element, so that rows of any length are searched alike.
#pragma once

#include <cstdint>

#include "core/rows.hpp"
#include "cuda/runtime/async_copy.cuh"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/element.cuh"
#include "cuda/select/expectation.hpp"
#include "cuda/select/general_row.cuh"
#include "cuda/select/marks.cuh"
#include "plan/select/tuning_warp.hpp"

namespace rtopk::cuda {

struct RaggedArguments : SelectArguments {
  RowRules rules;
};

template <class T, int G, int R>
struct RaggedRow {
  using Type = T;
  using Arguments = RaggedArguments;
  static constexpr int kElements = R;  ///< Of a lane.
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
    const core::RowShape shape = shape_of(args, number);
    start = shape.start;
    length = static_cast<int>(shape.length);
    results = static_cast<int>(shape.k);
    is_short = shape.is_short;
    elements = reinterpret_cast<const T*>(slot_of(stage)) + lead_of(first_of(args, number, start));
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
    const int mine = length - col_of(0);
#pragma unroll
    for (int r = 0; r < R; ++r) x[r] = r < mine ? x[r] : E::least();
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
    const unsigned sign = args.magnitude ? 0x80008000u : 0u;
    const unsigned infinity = static_cast<unsigned>(core::ElementTraits<T>::infinity_bits) * 0x10001u;
    const unsigned loses = args.smallest ? infinity : infinity | 0x80008000u;
    const int mine = length - col_of(0);
#pragma unroll
    for (int i = 0; i < kNumber; ++i) {
      const unsigned kept = 2 * i + 1 < mine ? 0xffffffffu : 2 * i < mine ? 0xffffu : 0u;
      words[i] = (words[i] & ~sign & kept) | (loses & ~kept);
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
  /// The number of the row's first element in the input.
  static __device__ std::int64_t first_element(const RaggedArguments& args, std::int64_t number, std::int64_t start) {
    return (core::exists(args.rules.ragged.offsets) ? 0 : number * args.stride) + start;
  }
  static __device__ const T* first_of(const RaggedArguments& args, std::int64_t number, std::int64_t start) {
    return static_cast<const T*>(args.input) + first_element(args, number, start);
  }
  static __device__ std::int64_t input_elements(const RaggedArguments& args) {
    return core::exists(args.rules.ragged.offsets) ? args.rules.ragged.elements
                                                   : (args.rows - 1) * args.stride + args.cols;
  }
  /// Elements of a row's first vector that lie before the row.
  static __device__ int lead_of(const T* first) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(first) % 16 / sizeof(T));
  }
  static __device__ char* slot_of(char* stage) { return stage + Group::index_in_warp() * Config::kSlotBytes; }

  /// Starts to copy a row. Vectors are copied whole, because what lies around a row is mostly other rows. The first
  /// vector of the input and the last one may reach outside of it: they are copied element by element.
  static __device__ void fetch(const RaggedArguments& args, char* stage, std::int64_t number) {
    const core::RowShape shape = shape_of(args, number);
    const T* first = first_of(args, number, shape.start);
    const int lead = lead_of(first);
    const int elements = shape.length > 0 ? lead + static_cast<int>(shape.length) : 0;
    const int vectors = (elements + kVector - 1) / kVector;
    const std::int64_t begin = first_element(args, number, shape.start) - lead;
    const bool begins_outside = begin < 0;
    const bool ends_outside = begin + vectors * kVector > input_elements(args);
    const int end = vectors - (ends_outside ? 1 : 0);
    T* slot = reinterpret_cast<T*>(slot_of(stage));
    const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(slot)) + Group::lane() * 16;
    const T* from = first - lead;
    const T* mine = opaque(from + Group::lane() * kVector);
#pragma unroll
    for (int i = 0; i < Config::kCopies; ++i) {
      const int vector = i * G + Group::lane();
      const bool copies = vector < end && !(i == 0 && begins_outside && vector == 0);
      if (copies) copy_async_once<false>(to + i * G * 16, mine + i * G * kVector);
    }
    if (begins_outside || ends_outside) {
#pragma unroll 1
      for (int j = Group::lane(); j < 2 * kVector; j += G) {
        const int element = j < kVector ? j : (vectors - 1) * kVector + j - kVector;
        const bool wanted = j < kVector ? begins_outside : ends_outside;
        if (wanted && element >= lead && element < elements) slot[element] = from[element];
      }
    }
    commit_copies();
  }

  __device__ void write_dense(const Marks<R>& chosen) const {
    write_matrix_row(static_cast<T*>(args.dense) + row * args.cols, chosen, [&](int place) { return elements[place]; });
  }
  __device__ void write_mask(const Marks<R>& chosen) const {
    write_matrix_row(args.mask + row * args.cols, chosen, [](int) { return std::uint8_t{1}; });
  }

 private:
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
