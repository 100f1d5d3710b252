// cuda_block: rows of up to 16384 elements (8192 of f64), one for each block, in the registers of its threads.
//
// A block works through its batch row by row and copies the next row to shared memory meanwhile. It looks for a
// threshold that exactly k elements reach (counting_search.cuh). A fallback row is searched by keys (search.cuh).
#pragma once

#include "cuda/runtime/async_copy.cuh"
#include "cuda/select/block/search.cuh"
#include "cuda/select/result_row.cuh"

namespace rtopk::cuda {

template <class T, int W>
class BlockSelect : BlockOfThreads<T, W> {
 public:
  using Config = BlockConfig<T, W>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Key = core::KeyOf<T>;
  using Warp = LaneGroup<32>;
  static constexpr int R = Config::kElements;

  __device__ BlockSelect(const SelectArguments& args, char* shared)
      : Base(reinterpret_cast<std::uint16_t*>(shared + Config::kStages * Config::kRowBytes),
             reinterpret_cast<int*>(shared + Config::kStages * Config::kRowBytes + Config::list_bytes(args.k))),
        args_(args),
        k_(static_cast<int>(args.k)),
        cols_(static_cast<int>(args.cols)),
        rows_(reinterpret_cast<T*>(shared)),
        note_(reinterpret_cast<Note*>(shared + Config::shared_bytes(args.k) - Config::kNoteBytes)) {}

  __device__ void run() {
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * args_.batch_length;
    const std::int64_t end = min(args_.rows, begin + args_.batch_length);
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
      row_ = rows_ + stage * Config::kCols;
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
  static_assert(sizeof(Note) <= Config::kNoteBytes);

  __device__ typename Seldom::Row row() const { return {row_, cols_, k_, args_.smallest}; }

  __device__ Learnt<Real> expected() {
    Seldom::expect(row(), list_, partials_, args_.expectation, note_);
    return note_->expected;
  }

  __device__ void fetch(std::int64_t number, int stage) const {
    const T* from = static_cast<const T*>(args_.input) + number * args_.stride;
    T* to = rows_ + stage * Config::kCols;
    if (args_.access_bytes == 16) {
      copy_pieces<16>(from, to, cols_);
    } else if (args_.access_bytes == 8) {
      copy_pieces<8>(from, to, cols_);
    } else if (args_.access_bytes == 4) {
      copy_pieces<4>(from, to, cols_);
    } else {
      for (int col = static_cast<int>(threadIdx.x); col < cols_; col += Config::kThreads) to[col] = from[col];
    }
    commit_copies();
  }

  template <int kBytes>
  static __device__ void copy_pieces(const T* from, T* to, int cols) {
    constexpr int kPiece = kBytes / static_cast<int>(sizeof(T));
    if constexpr (kPiece >= 1) {
#pragma unroll 4
      for (int col = static_cast<int>(threadIdx.x) * kPiece; col < cols; col += Config::kThreads * kPiece) {
        copy_async<kBytes>(to + col, from + col);
      }
    }
  }

  union Chunk {
    uint4 bits;
    T raw[Config::kVector];
  };

  /// Fills the places past the end of a row with a value that is never selected. Copies do not touch them, so they are
  /// written once.
  __device__ void pad() const {
    using Bits = core::KeyOf<T>;
    Bits bits;
    if constexpr (core::is_floating<T>) {
      constexpr Bits infinity = core::ElementTraits<T>::infinity_bits;
      bits = args_.smallest ? infinity : static_cast<Bits>(infinity | (Bits{1} << (8 * sizeof(Bits) - 1)));
    } else {
      bits = args_.smallest ? 0x7fffffffu : 0x80000000u;
    }
    auto* elements = reinterpret_cast<Bits*>(rows_);
    for (int col = cols_ + static_cast<int>(threadIdx.x); col < Config::kCols; col += Config::kThreads) {
      elements[col] = bits;
      elements[Config::kCols + col] = bits;
    }
  }

  __device__ void load(Value (&x)[R]) const {
#pragma unroll
    for (int chunk = 0; chunk < Config::kChunks; ++chunk) {
      Chunk loaded;
      loaded.bits = *reinterpret_cast<const uint4*>(row_ + col_of(chunk, 0));
#pragma unroll
      for (int j = 0; j < Config::kVector; ++j) x[chunk * Config::kVector + j] = E::value(loaded.raw[j]);
    }
    if (args_.smallest) {
#pragma unroll
      for (int r = 0; r < R; ++r) x[r] = E::reversed(x[r]);
    }
  }

  /// Counts the elements of the row at or above the threshold. `counts`: those in each of this thread's chunks.
  __device__ int count(const Value (&x)[R], Value threshold, float (&counts)[Config::kChunks]) {
    return sum(__float2int_rz(count_mine<T>(x, threshold, counts)));
  }

  /// How far the selection of a row has come. `fallback`: hand it to BlockSearch.
  enum class Outcome { fallback, chosen, listed };

  // The writing code stands here once: inlined after each search, it would cost registers.
  __device__ void select() {
    int passes = 0;
    unsigned chosen = 0;
    Outcome outcome = Outcome::chosen;
    if (k_ >= cols_) {
      chosen = everything();
    } else {
      outcome = select_by_counting(passes, chosen);
    }
    if (outcome == Outcome::fallback) {
      learnt_.known = false;
      chosen = Seldom::choose(row(), list_, partials_, note_);
      passes += note_->passes;
    }
    if (args_.form == Form::dense) {
      write_dense(chosen);
    } else if (args_.form == Form::mask) {
      write_mask(chosen);
    } else {
      if (outcome != Outcome::listed) list_chosen(chosen);
      write_list();
    }
    if (args_.passes != nullptr && threadIdx.x == 0) args_.passes[number_] = passes;
  }

  __device__ unsigned everything() const {
    unsigned chosen = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) chosen |= col_of(r) < cols_ ? 1u << r : 0u;
    return chosen;
  }

  __device__ Outcome select_by_counting(int& passes, unsigned& chosen) {
    constexpr int kMaxPasses = 40;
    Value x[R];
    load(x);
    if (!learnt_.known) learnt_ = expected();
    float counts[Config::kChunks];
    Real at = learnt_.kth;
    Real step = learnt_.step;
    Value kth = E::from_real(at);
    int off = count(x, kth, counts) - k_;
    const int first_off = off;
    passes = 1;
    ThresholdBracket<T> bracket;
    bool ties = false;
    // Invariant: too many elements reach bracket.low and too few reach bracket.high, as far as these are known.
#pragma unroll 1
    while (off != 0 && !ties) {
      bracket.take(kth, off);
      if (passes == 2 && !bracket.is_closed() && abs(off) > 64) {
        // The row is unlike those before: estimate it by itself.
        at = expected().kth;
        step = note_->expected.step;
      } else {
        at = bracket.is_closed() ? bracket.between() : at + static_cast<Real>(off) * step;
        step *= Real{1.5};
      }
      kth = E::from_real(at);
      bool is_neighbour = false;
      if (passes >= first_unusual_pass<T>(learnt_.tied)) {
        if (passes == kMaxPasses) return Outcome::fallback;
        if (takes_neighbour(passes)) {
          Seldom::find_neighbour(row(), list_, partials_, bracket.high, bracket.has_high(), note_);
          // NaN is at or above every threshold: without an upper threshold it would count as a tie.
          if (!bracket.has_high() && note_->nan != 0) return Outcome::fallback;
          kth = note_->neighbour;
          is_neighbour = true;
        } else if (takes_middle(passes)) {
          kth = bracket.middle_key();
        }
        at = E::real(kth);
      }
      off = count(x, kth, counts) - k_;
      ++passes;
      // The neighbour is the kth value, with ties: too many elements reach it, too few the threshold above it.
      ties = is_neighbour && off > 0;
    }
    if (!E::is_finite(kth) || kth == E::least()) return Outcome::fallback;
    learn<T>(learnt_, kth, first_off, passes, ties);
    if (ties) {
      const int quota = bracket.has_high() ? -bracket.off_high : k_;
      if constexpr (sizeof(T) == 2) {
        // Half of all rows of 16-bit elements have ties at the kth value, so it pays to keep the elements in registers.
        unsigned tied = 0;
#pragma unroll
        for (int r = 0; r < R; ++r) {
          chosen |= bracket.has_high() && E::at_least(x[r], bracket.high) ? 1u << r : 0u;
          tied |= x[r] == kth ? 1u << r : 0u;
        }
        chosen |= first_in_index_order(tied, quota);
      } else {
        chosen = Seldom::choose_ties(row(), list_, partials_, kth, bracket.high, bracket.has_high(), quota);
      }
      return Outcome::chosen;
    }
    if (args_.form == Form::dense || args_.form == Form::mask) {
#pragma unroll
      for (int r = 0; r < R; ++r) chosen |= E::at_least(x[r], kth) ? 1u << r : 0u;
      return Outcome::chosen;
    }
    unsigned chosen_counts[Config::kChunks];
#pragma unroll
    for (int chunk = 0; chunk < Config::kChunks; ++chunk) {
      chosen_counts[chunk] = static_cast<unsigned>(__float2int_rz(counts[chunk]));
    }
    int first[Config::kChunks];
    positions(chosen_counts, first);
    const auto list = static_cast<std::uint32_t>(__cvta_generic_to_shared(list_));
#pragma unroll
    for (int chunk = 0; chunk < Config::kChunks; ++chunk) {
      std::uint32_t next = list + 2 * static_cast<std::uint32_t>(first[chunk]);
#pragma unroll
      for (int j = 0; j < Config::kVector; ++j) {
        E::push_if_at_least(x[chunk * Config::kVector + j], kth, next, col_of(0, 0), chunk * Config::kChunkCols + j);
      }
    }
    return Outcome::listed;
  }

  // ------------------------------------------------------------------------------------------------------------------
  // Writing.

  __device__ void list_chosen(unsigned chosen) {
    int first[Config::kChunks];
    positions_of(chosen, first);
    const auto list = static_cast<std::uint32_t>(__cvta_generic_to_shared(list_));
#pragma unroll
    for (int chunk = 0; chunk < Config::kChunks; ++chunk) {
      std::uint32_t next = list + 2 * static_cast<std::uint32_t>(first[chunk]);
#pragma unroll
      for (int j = 0; j < Config::kVector; ++j) {
        push_if((chosen & 1u << (chunk * Config::kVector + j)) != 0, next, col_of(0, 0),
                chunk * Config::kChunkCols + j);
      }
    }
  }

  /// Writes the listed elements.
  __device__ void write_list() {
    __syncthreads();
    T* values = static_cast<T*>(args_.values) + number_ * args_.k;
    with_indices(args_, number_, [&](auto* indices) {
      using Index = std::remove_pointer_t<decltype(indices)>;
      for (int i = static_cast<int>(threadIdx.x); i < k_; i += Config::kThreads) {
        const int col = list_[i];
        if (args_.values != nullptr) values[i] = row_[col];
        if (args_.indices != nullptr) indices[i] = static_cast<Index>(col);
      }
    });
  }

  __device__ void write_dense(unsigned chosen) const {
    T* out_row = static_cast<T*>(args_.dense) + number_ * args_.cols;
#pragma unroll
    for (int chunk = 0; chunk < Config::kChunks; ++chunk) {
      const int col = col_of(chunk, 0);
      Chunk out;
      out.bits = *reinterpret_cast<const uint4*>(row_ + col);
#pragma unroll
      for (int j = 0; j < Config::kVector; ++j) {
        if ((chosen >> (chunk * Config::kVector + j) & 1u) == 0) out.raw[j] = T{};
      }
      if (args_.dense_access_bytes == 16) {
        if (col < cols_) *reinterpret_cast<uint4*>(out_row + col) = out.bits;
      } else {
#pragma unroll
        for (int j = 0; j < Config::kVector; ++j) {
          if (col + j < cols_) out_row[col + j] = out.raw[j];
        }
      }
    }
  }

  __device__ void write_mask(unsigned chosen) const {
    std::uint8_t* out_row = args_.mask + number_ * args_.cols;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (col_of(r) < cols_) out_row[col_of(r)] = static_cast<std::uint8_t>(chosen >> r & 1u);
    }
  }

  const SelectArguments& args_;
  int k_;
  int cols_;
  T* rows_;  ///< The current row and the next one.
  Note* note_;
  std::int64_t number_ = 0;  ///< Index of the current row.
  const T* row_ = nullptr;
  Learnt<Real> learnt_;
};

template <class T, int W>
__global__ void __launch_bounds__(32 * W, (BlockConfig<T, W>::kBlocksPerMultiprocessor))
    block_kernel(const __grid_constant__ SelectArguments args) {
  extern __shared__ __align__(16) char shared[];
  BlockSelect<T, W>(args, shared).run();
}

}  // namespace rtopk::cuda
