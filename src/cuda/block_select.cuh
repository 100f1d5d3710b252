// cuda_block: rows of up to 16384 elements (8192 of f64), one for each block, in the registers of its threads.
//
// A block takes its rows in turn. The next one is copied into shared memory while it works on this one. It looks for a
// threshold that exactly k elements reach (border_search.cuh); a row that resists is searched by keys.
#pragma once

#include "async_copy.cuh"
#include "block_search.cuh"
#include "result_row.cuh"

namespace rtopk::cuda {

template <class T, int W>
class BlockSelect : BlockOfThreads<T, W> {
 public:
  using Shape = BlockShape<T, W>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Key = core::KeyOf<T>;
  using Warp = LaneGroup<32>;
  static constexpr int R = Shape::kElements;

  __device__ BlockSelect(const Call& call, char* shared)
      : Base(reinterpret_cast<std::uint16_t*>(shared + Shape::kStages * Shape::kRowBytes),
             reinterpret_cast<int*>(shared + Shape::kStages * Shape::kRowBytes + Shape::list_bytes(call.k))),
        call_(call),
        k_(static_cast<int>(call.k)),
        cols_(static_cast<int>(call.cols)),
        rows_(reinterpret_cast<T*>(shared)),
        note_(reinterpret_cast<Note*>(shared + Shape::shared_bytes(call.k) - Shape::kNoteBytes)) {}

  __device__ void run() {
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * call_.units_per_worker;
    const std::int64_t end = min(call_.rows, begin + call_.units_per_worker);
    if (begin >= end) return;
    if (threadIdx.x == 0) note_->hint = core::max_key<T> / 2;
    pad();
    fetch(begin, 0);
    int stage = 0;
    for (std::int64_t number = begin; number < end; ++number) {
      wait_for_copies<0>();
      __syncthreads();
      if (number + 1 < end) fetch(number + 1, stage ^ 1);
      number_ = number;
      row_ = rows_ + stage * Shape::kCols;
      select();
      __syncthreads();  // the list and the row are free again
      stage ^= 1;
    }
  }

 private:
  using Base = BlockOfThreads<T, W>;
  using Base::col_of;
  using Base::first_in_index_order;
  using Base::list_;
  using Base::partials_;
  using Base::positions;
  using Base::positions_of;
  using Base::sum;
  using Base::warp;
  using Seldom = BlockSearch<T, W>;
  using Note = typename Seldom::Note;
  static_assert(sizeof(Note) <= Shape::kNoteBytes);

  __device__ typename Seldom::Row row() const { return {row_, cols_, k_, call_.smallest}; }

  __device__ Learnt<Real> expected() {
    Seldom::expect(row(), list_, partials_, call_.expectation, note_);
    return note_->expected;
  }

  __device__ void fetch(std::int64_t number, int stage) const {
    const T* from = static_cast<const T*>(call_.input) + number * call_.stride;
    T* to = rows_ + stage * Shape::kCols;
    if (call_.access_bytes == 16) {
      copy_pieces<16>(from, to, cols_);
    } else if (call_.access_bytes == 8) {
      copy_pieces<8>(from, to, cols_);
    } else if (call_.access_bytes == 4) {
      copy_pieces<4>(from, to, cols_);
    } else {
      for (int col = static_cast<int>(threadIdx.x); col < cols_; col += Shape::kThreads) to[col] = from[col];
    }
    commit_copies();
  }

  template <int kBytes>
  static __device__ void copy_pieces(const T* from, T* to, int cols) {
    constexpr int kPiece = kBytes / static_cast<int>(sizeof(T));
    if constexpr (kPiece >= 1) {
#pragma unroll 4
      for (int col = static_cast<int>(threadIdx.x) * kPiece; col < cols; col += Shape::kThreads * kPiece) {
        copy_async<kBytes>(to + col, from + col);
      }
    }
  }

  union Chunk {
    uint4 bits;
    T raw[Shape::kVector];
  };

  /// What lies behind the end of a row can never be selected. Copies do not touch it, so it is written once.
  __device__ void pad() const {
    using Bits = core::KeyOf<T>;
    Bits bits;
    if constexpr (core::is_floating<T>) {
      constexpr Bits infinity = core::ElementTraits<T>::infinity_bits;
      bits = call_.smallest ? infinity : static_cast<Bits>(infinity | (Bits{1} << (8 * sizeof(Bits) - 1)));
    } else {
      bits = call_.smallest ? 0x7fffffffu : 0x80000000u;
    }
    auto* elements = reinterpret_cast<Bits*>(rows_);
    for (int col = cols_ + static_cast<int>(threadIdx.x); col < Shape::kCols; col += Shape::kThreads) {
      elements[col] = bits;
      elements[Shape::kCols + col] = bits;
    }
  }

  __device__ void load(Value (&x)[R]) const {
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      Chunk loaded;
      loaded.bits = *reinterpret_cast<const uint4*>(row_ + col_of(chunk, 0));
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) x[chunk * Shape::kVector + j] = E::value(loaded.raw[j]);
    }
    if (call_.smallest) {
#pragma unroll
      for (int r = 0; r < R; ++r) x[r] = E::reversed(x[r]);
    }
  }

  /// Elements of the row at or above the threshold; `counts` says how many in each of this thread's chunks.
  __device__ int count(const Value (&x)[R], Value threshold, float (&counts)[Shape::kChunks]) {
    return sum(__float2int_rz(count_mine<T>(x, threshold, counts)));
  }

  /// How far the selection of a row has come.
  enum class Outcome { resists, chosen, listed };

  // What every way ends with stands here once: inlined in each, it would cost registers.
  __device__ void select() {
    int passes = 0;
    unsigned chosen = 0;
    Outcome outcome = Outcome::chosen;
    if (k_ >= cols_) {
      chosen = everything();
    } else {
      outcome = select_by_counting(passes, chosen);
    }
    if (outcome == Outcome::resists) {
      learnt_.known = false;
      chosen = Seldom::choose(row(), list_, partials_, note_);
      passes += note_->passes;
    }
    if (call_.form == Form::dense) {
      write_dense(chosen);
    } else if (call_.form == Form::mask) {
      write_mask(chosen);
    } else {
      if (outcome != Outcome::listed) list_chosen(chosen);
      write_list();
    }
    if (call_.passes != nullptr && threadIdx.x == 0) call_.passes[number_] = passes;
  }

  __device__ unsigned everything() const {
    unsigned chosen = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) chosen |= col_of(r) < cols_ ? 1u << r : 0u;
    return chosen;
  }

  __device__ Outcome select_by_counting(int& passes, unsigned& chosen) {
    constexpr int kMostPasses = 40;
    Value x[R];
    load(x);
    if (!learnt_.known) learnt_ = expected();
    float counts[Shape::kChunks];
    Real at = learnt_.border;
    Real step = learnt_.step;
    Value border = E::from_real(at);
    int off = count(x, border, counts) - k_;
    const int first_off = off;
    passes = 1;
    ThresholdBracket<T> bracket;
    bool ties = false;
#pragma unroll 1
    while (off != 0 && !ties) {
      bracket.take(border, off);
      if (passes == 2 && !bracket.is_closed() && abs(off) > 64) {
        // Nothing like the rows before.
        at = expected().border;
        step = note_->expected.step;
      } else {
        at = bracket.is_closed() ? bracket.between() : at + static_cast<Real>(off) * step;
        step *= Real{1.5};
      }
      border = E::from_real(at);
      bool is_neighbour = false;
      if (passes >= first_unusual_pass<T>(learnt_.tied)) {
        if (passes == kMostPasses) return Outcome::resists;
        if (takes_neighbour(passes)) {
          Seldom::find_neighbour(row(), list_, partials_, bracket.high, bracket.has_high(), note_);
          // A NaN is at or above every threshold, so without an upper one it would pass for a tie.
          if (!bracket.has_high() && note_->nan != 0) return Outcome::resists;
          border = note_->neighbour;
          is_neighbour = true;
        } else if (takes_middle(passes)) {
          border = bracket.middle_key();
        }
        at = E::real(border);
      }
      off = count(x, border, counts) - k_;
      ++passes;
      // Too few elements reach what is above the neighbour, too many the neighbour itself.
      ties = is_neighbour && off > 0;
    }
    if (!E::is_finite(border) || border == E::least()) return Outcome::resists;
    learn<T>(learnt_, border, first_off, passes, ties);
    if (ties) {
      const int quota = bracket.has_high() ? -bracket.off_high : k_;
      if constexpr (sizeof(T) == 2) {
        // Half of all rows of 16-bit elements have ties at their border, so it pays to hold on to the registers.
        unsigned tied = 0;
#pragma unroll
        for (int r = 0; r < R; ++r) {
          chosen |= bracket.has_high() && E::at_least(x[r], bracket.high) ? 1u << r : 0u;
          tied |= x[r] == border ? 1u << r : 0u;
        }
        chosen |= first_in_index_order(tied, quota);
      } else {
        chosen = Seldom::choose_ties(row(), list_, partials_, border, bracket.high, bracket.has_high(), quota);
      }
      return Outcome::chosen;
    }
    if (call_.form == Form::dense || call_.form == Form::mask) {
#pragma unroll
      for (int r = 0; r < R; ++r) chosen |= E::at_least(x[r], border) ? 1u << r : 0u;
      return Outcome::chosen;
    }
    unsigned numbers[Shape::kChunks];
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      numbers[chunk] = static_cast<unsigned>(__float2int_rz(counts[chunk]));
    }
    int first[Shape::kChunks];
    positions(numbers, first);
    const auto list = static_cast<std::uint32_t>(__cvta_generic_to_shared(list_));
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      std::uint32_t next = list + 2 * static_cast<std::uint32_t>(first[chunk]);
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        E::push_if_at_least(x[chunk * Shape::kVector + j], border, next, col_of(0, 0), chunk * Shape::kChunkCols + j);
      }
    }
    return Outcome::listed;
  }

  // ------------------------------------------------------------------------------------------------------------------
  // Writing.

  __device__ void list_chosen(unsigned chosen) {
    int first[Shape::kChunks];
    positions_of(chosen, first);
    const auto list = static_cast<std::uint32_t>(__cvta_generic_to_shared(list_));
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      std::uint32_t next = list + 2 * static_cast<std::uint32_t>(first[chunk]);
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        push_if((chosen & 1u << (chunk * Shape::kVector + j)) != 0, next, col_of(0, 0), chunk * Shape::kChunkCols + j);
      }
    }
  }

  /// Writes the listed columns.
  __device__ void write_list() {
    __syncthreads();
    T* values = static_cast<T*>(call_.values) + number_ * call_.k;
    with_indices(call_, number_, [&](auto* indices) {
      using Index = std::remove_pointer_t<decltype(indices)>;
      for (int i = static_cast<int>(threadIdx.x); i < k_; i += Shape::kThreads) {
        const int col = list_[i];
        if (call_.values != nullptr) values[i] = row_[col];
        if (call_.indices != nullptr) indices[i] = static_cast<Index>(col);
      }
    });
  }

  __device__ void write_dense(unsigned chosen) const {
    T* out_row = static_cast<T*>(call_.dense) + number_ * call_.cols;
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      const int col = col_of(chunk, 0);
      Chunk out;
      out.bits = *reinterpret_cast<const uint4*>(row_ + col);
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        if ((chosen >> (chunk * Shape::kVector + j) & 1u) == 0) out.raw[j] = T{};
      }
      if (call_.dense_access_bytes == 16) {
        if (col < cols_) *reinterpret_cast<uint4*>(out_row + col) = out.bits;
      } else {
#pragma unroll
        for (int j = 0; j < Shape::kVector; ++j) {
          if (col + j < cols_) out_row[col + j] = out.raw[j];
        }
      }
    }
  }

  __device__ void write_mask(unsigned chosen) const {
    std::uint8_t* out_row = call_.mask + number_ * call_.cols;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (col_of(r) < cols_) out_row[col_of(r)] = static_cast<std::uint8_t>(chosen >> r & 1u);
    }
  }

  const Call& call_;
  int k_;
  int cols_;
  T* rows_;  ///< The row at hand and the next one.
  Note* note_;
  std::int64_t number_ = 0;  ///< Of the row at hand.
  const T* row_ = nullptr;
  Learnt<Real> learnt_;
};

template <class T, int W>
__global__ void __launch_bounds__(32 * W, (BlockShape<T, W>::kBlocksPerMultiprocessor))
    block_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(16) char shared[];
  BlockSelect<T, W>(call, shared).run();
}

}  // namespace rtopk::cuda
