// cuda_block: rows of up to 16384 elements (8192 of f64), one for each block, in the registers of its threads.
//
// A block takes its rows in turn. The next one is copied into shared memory while it works on this one. The search is that
// of cuda_warp: it starts where the rows before had their border, steps by as many ranks as it is off, and interpolates as
// soon as it has a threshold on either side; a row that resists is searched by keys.
#pragma once

#include "async_copy.cuh"
#include "block_shape.hpp"
#include "call.hpp"
#include "core/search.hpp"
#include "element.cuh"
#include "lane_group.cuh"
#include "result_row.cuh"

namespace rtopk::cuda {

template <class T, int W>
class BlockSelect {
 public:
  using Shape = BlockShape<T, W>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Key = core::KeyOf<T>;
  using Warp = LaneGroup<32>;
  static constexpr int R = Shape::kElements;

  __device__ BlockSelect(const Call& call, char* shared) : call_(call), k_(static_cast<int>(call.k)) {
    rows_ = reinterpret_cast<T*>(shared);
    list_ = reinterpret_cast<std::uint16_t*>(shared + Shape::kStages * Shape::kRowBytes);
    partials_ = reinterpret_cast<int*>(shared + Shape::kStages * Shape::kRowBytes + 2 * Shape::kCols);
  }

  __device__ void run() {
    const std::int64_t units = call_.rows * call_.parts;
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * call_.units_per_worker;
    const std::int64_t end = min(units, begin + call_.units_per_worker);
    if (begin >= end) return;
    fetch(begin, 0);
    int stage = 0;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      wait_for_copies<0>();
      __syncthreads();
      if (unit + 1 < end) fetch(unit + 1, stage ^ 1);
      unit_ = unit;
      row_ = rows_ + stage * Shape::kCols;
      cols_ = cols_of(unit);
      select();
      __syncthreads();  // the list and the row are free again
      stage ^= 1;
    }
  }

 private:
  static __device__ int warp() { return static_cast<int>(threadIdx.x / 32); }
  static __device__ int col_of(int chunk, int j) {
    return chunk * Shape::kChunkCols + static_cast<int>(threadIdx.x) * Shape::kVector + j;
  }
  static __device__ int col_of(int r) { return col_of(r / Shape::kVector, r % Shape::kVector); }

  __device__ int cols_of(std::int64_t unit) const {
    if (call_.parts == 1) return static_cast<int>(call_.cols);
    const std::int64_t first = unit % call_.parts * call_.part_cols;
    return static_cast<int>(min(call_.part_cols, call_.cols - first));
  }

  __device__ void fetch(std::int64_t unit, int stage) const {
    const T* from = static_cast<const T*>(call_.input) + unit / call_.parts * call_.stride +
                    unit % call_.parts * call_.part_cols;
    T* to = rows_ + stage * Shape::kCols;
    const int cols = cols_of(unit);
    // A part's length may allow narrower accesses than its address.
    const int access = call_.parts == 1 || cols * sizeof(T) % call_.access_bytes == 0 ? call_.access_bytes : 0;
    if (access == 16) {
      copy_pieces<16>(from, to, cols);
    } else if (access == 8) {
      copy_pieces<8>(from, to, cols);
    } else if (access == 4) {
      copy_pieces<4>(from, to, cols);
    } else {
      for (int col = static_cast<int>(threadIdx.x); col < cols; col += Shape::kThreads) to[col] = from[col];
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

  /// The least value there is, as an element, for what lies behind the end of a row.
  __device__ void load(Value (&x)[R]) const {
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      Chunk loaded;
      loaded.bits = *reinterpret_cast<const uint4*>(row_ + col_of(chunk, 0));
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        Value value = E::value(loaded.raw[j]);
        if (call_.smallest) value = E::reversed(value);
        x[chunk * Shape::kVector + j] = col_of(chunk, j) < cols_ ? value : E::least();
      }
    }
  }

  /// The sum over the block, for every thread. Two sets of partial sums in turn, so that one barrier is enough.
  __device__ int sum(int x) {
    int* mine = partials_ + (turn_ ? W : 0);
    turn_ = !turn_;
    const int of_warp = Warp::sum(x);
    if (threadIdx.x % 32 == 0) mine[warp()] = of_warp;
    __syncthreads();
    const int lane = static_cast<int>(threadIdx.x % 32);
    return Warp::sum(lane < W ? mine[lane] : 0);
  }

  __device__ int count(const Value (&x)[R], Value threshold) {
    float mine[4] = {0, 0, 0, 0};  // four sums, so that additions need not wait for each other
#pragma unroll
    for (int r = 0; r < R; ++r) mine[r % 4] += E::one_if_at_least(x[r], threshold);
    return sum(__float2int_rz((mine[0] + mine[1]) + (mine[2] + mine[3])));
  }

  __device__ void select() {
    constexpr int kMostPasses = 14;
    int passes = 0;
    unsigned chosen = 0;
    bool found = false;
    if (k_ >= cols_) {
      found = true;
#pragma unroll
      for (int r = 0; r < R; ++r) chosen |= col_of(r) < cols_ ? 1u << r : 0u;
    } else if (failures_ < 3) {
      Value x[R];
      load(x);
      if (!known_) expect(x);
      Real at = border_;
      Real step = step_;
      Value threshold = E::from_real(at);
      int off = count(x, threshold) - k_;
      const int first_off = off;
      passes = 1;
      Real low = at;
      Real high = at;
      int off_low = 0;
      int off_high = 0;
#pragma unroll 1
      while (off != 0 && passes < kMostPasses) {
        low = off > 0 ? at : low;
        off_low = off > 0 ? off : off_low;
        high = off < 0 ? at : high;
        off_high = off < 0 ? off : off_high;
        if (off_low > 0 && off_high < 0) {
          const float share = __fdividef(static_cast<float>(off_low), static_cast<float>(off_low - off_high));
          // The middle now and then: interpolation alone can creep along one side.
          at = low + (high - low) * static_cast<Real>(passes % 4 == 0 ? 0.5f : share);
        } else {
          at += static_cast<Real>(off) * step;
          step *= Real{1.5};
        }
        threshold = E::from_real(at);
        off = count(x, threshold) - k_;
        ++passes;
      }
      found = off == 0 && E::is_finite(threshold) && threshold != E::least();
      if (found) {
        learn(at, first_off);
#pragma unroll
        for (int r = 0; r < R; ++r) chosen |= E::at_least(x[r], threshold) ? 1u << r : 0u;
      } else {
        known_ = false;
        ++failures_;
      }
    }
    if (!found) chosen = choose_by_keys(passes);
    write(chosen);
    if (call_.passes != nullptr && call_.parts == 1 && threadIdx.x == 0) call_.passes[unit_] = passes;
  }

  __device__ void learn(Real at, int first_off) {
    const Real moved = at - border_;
    const Real step = moved * static_cast<Real>(__fdividef(1.0f, static_cast<float>(first_off)));
    if (abs(first_off) >= 3 && step > step_ * Real{0.25} && step < step_ * Real{4}) step_ += Real{0.25} * (step - step_);
    border_ += static_cast<Real>(weight_) * moved;
    weight_ = fmaxf(0.7f * weight_, 0.125f);
  }

  /// Where the border would be if the row were normally distributed: from its first elements in each lane.
  __device__ void expect(const Value (&x)[R]) {
    Real totals[2] = {0, 0};
    int finite = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const bool counts = E::is_finite(x[r]) && x[r] != E::least();
      const Real value = counts ? E::real(x[r]) : Real{0};
      finite += counts ? 1 : 0;
      totals[0] += value;
      totals[1] += value * value;
    }
    const Real number = Real{1} / static_cast<Real>(max(sum(finite), 1));
    // The partial sums of reals lie where those of integers do: all threads are done with them behind two barriers.
    auto* partials = reinterpret_cast<Real*>(list_);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Real of_warp = Warp::sum_reals(totals[i]);
      __syncthreads();
      if (threadIdx.x % 32 == 0) partials[warp()] = of_warp;
      __syncthreads();
      Real total = 0;
      for (int w = 0; w < W; ++w) total += partials[w];
      totals[i] = total;
    }
    __syncthreads();
    const Real mean = totals[0] * number;
    const Real variance = totals[1] * number - mean * mean;
    const Real deviation = variance > 0 ? static_cast<Real>(sqrt(variance)) : Real{0};
    border_ = mean + static_cast<Real>(call_.expectation.border) * deviation;
    step_ = static_cast<Real>(call_.expectation.step) * deviation;
    weight_ = 0.5f;
    known_ = true;
  }

  // ------------------------------------------------------------------------------------------------------------------
  // The exact search by directed keys of the original bits.

  template <class F>
  __device__ void for_each_key(F f) const {
#pragma unroll 4
    for (int col = static_cast<int>(threadIdx.x); col < cols_; col += Shape::kThreads) {
      f(directed_key(row_[col], call_.smallest));
    }
  }

  /// The least and the greatest of a number in each thread, for every thread.
  __device__ void extremes(Key& least, Key& greatest) {
    auto* partials = reinterpret_cast<Key*>(list_);
    least = Warp::least(least);
    greatest = Warp::greatest(greatest);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
      partials[warp()] = least;
      partials[W + warp()] = greatest;
    }
    __syncthreads();
    for (int w = 0; w < W; ++w) {
      least = min(least, partials[w]);
      greatest = max(greatest, partials[W + w]);
    }
    __syncthreads();
  }

  __device__ unsigned choose_by_keys(int& passes) {
    core::ThresholdSearch<Key> search({0, core::max_key<T>, cols_, 0}, k_);
    for (int pass = 0; !search.done(); ++pass) {
      if (search.is_stuck() || pass == 2) {
        const core::Bracket<Key> bracket = search.bracket();
        Key least = bracket.high;
        Key greatest = bracket.low;
        for_each_key([&](Key key) {
          if (key >= bracket.low && key <= bracket.high) {
            least = min(least, key);
            greatest = max(greatest, key);
          }
        });
        extremes(least, greatest);
        search.narrow(least, greatest);
        if (search.done()) break;
      }
      const core::Bracket<Key> bracket = search.bracket();
      Key proposal = static_cast<Key>(bracket.low + (bracket.high - bracket.low) / 2 + 1);
      // Rows with many equal values at the border often share that value with the row before.
      if (pass == 0) proposal = hint_;
      if (pass == 1 && hint_ < core::max_key<T>) proposal = static_cast<Key>(hint_ + 1);
      const Key probe = search.probe(proposal);
      int counted = 0;
      for_each_key([&](Key key) { counted += key >= probe ? 1 : 0; });
      search.record(probe, sum(counted));
    }
    const core::Threshold<Key> border = search.result();
    hint_ = border.key;
    passes += border.passes;
    unsigned chosen = 0;
    unsigned tied = 0;
#pragma unroll 1
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        const int col = col_of(chunk, j);
        if (col < cols_) {
          const Key key = directed_key(row_[col], call_.smallest);
          const unsigned bit = 1u << (chunk * Shape::kVector + j);
          chosen |= key > border.key ? bit : 0u;
          tied |= key == border.key ? bit : 0u;
        }
      }
    }
    if (border.count == k_) return chosen | tied;
    const int quota = k_ - static_cast<int>(border.count_above);
    int first[Shape::kChunks];
    positions(tied, first);
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      int position = first[chunk];
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        const unsigned bit = 1u << (chunk * Shape::kVector + j);
        if ((tied & bit) != 0) {
          if (position < quota) chosen |= bit;
          ++position;
        }
      }
    }
    __syncthreads();
    return chosen;
  }

  // ------------------------------------------------------------------------------------------------------------------
  // Writing.

  /// Where, in index order, the first of a thread's chosen elements of each chunk comes. All partial sums of the block are
  /// in use until the next barrier.
  __device__ void positions(unsigned chosen, int (&first)[Shape::kChunks]) {
    int* totals = partials_ + 2 * W;  // [chunk][warp]
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      const auto mine = static_cast<unsigned>(__popc(chosen >> (chunk * Shape::kVector) & ((1u << Shape::kVector) - 1u)));
      // Two chunks to a scan, where there are two: a warp has at most 256 of each.
      if (chunk % 2 == 0) {
        unsigned packed = mine;
        if (chunk + 1 < Shape::kChunks) {
          packed += static_cast<unsigned>(
                        __popc(chosen >> ((chunk + 1) * Shape::kVector) & ((1u << Shape::kVector) - 1u)))
                    << 16;
        }
        const unsigned inclusive = Warp::inclusive_sum(packed);
        const unsigned below = inclusive - packed;
        first[chunk] = static_cast<int>(below & 0xffffu);
        if (chunk + 1 < Shape::kChunks) first[chunk + 1] = static_cast<int>(below >> 16);
        if (threadIdx.x % 32 == 31) {
          totals[chunk * W + warp()] = static_cast<int>(inclusive & 0xffffu);
          if (chunk + 1 < Shape::kChunks) totals[(chunk + 1) * W + warp()] = static_cast<int>(inclusive >> 16);
        }
      }
    }
    __syncthreads();
    if (warp() == 0) {
      constexpr int kEach = (Shape::kChunks * W + 31) / 32;
      int sums[kEach];
      int total = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int entry = static_cast<int>(threadIdx.x) * kEach + i;
        sums[i] = total;
        total += entry < Shape::kChunks * W ? totals[entry] : 0;
      }
      const int before = static_cast<int>(Warp::inclusive_sum(static_cast<unsigned>(total))) - total;
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int entry = static_cast<int>(threadIdx.x) * kEach + i;
        if (entry < Shape::kChunks * W) totals[entry] = before + sums[i];
      }
    }
    __syncthreads();
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) first[chunk] += totals[chunk * W + warp()];
  }

  __device__ void write(unsigned chosen) {
    if (call_.form == Form::dense) return write_dense(chosen);
    if (call_.form == Form::mask) return write_mask(chosen);
    int first[Shape::kChunks];
    positions(chosen, first);
    const auto list = static_cast<std::uint32_t>(__cvta_generic_to_shared(list_));
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      std::uint32_t next = list + 2 * static_cast<std::uint32_t>(first[chunk]);
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        push_if((chosen & 1u << (chunk * Shape::kVector + j)) != 0, next, col_of(0, 0), chunk * Shape::kChunkCols + j);
      }
    }
    __syncthreads();
    const int count = min(k_, cols_);
    T* values = static_cast<T*>(call_.values) + unit_ * call_.k;
    const std::int64_t first_col = call_.parts == 1 ? 0 : unit_ % call_.parts * call_.part_cols;
    const std::int32_t* columns = call_.columns == nullptr ? nullptr : call_.columns + unit_ * call_.cols;
    with_indices(call_, unit_, [&](auto* indices) {
      using Index = std::remove_pointer_t<decltype(indices)>;
      for (int i = static_cast<int>(threadIdx.x); i < count; i += Shape::kThreads) {
        const int col = list_[i];
        if (call_.values != nullptr) values[i] = row_[col];
        if (call_.indices != nullptr) indices[i] = static_cast<Index>(columns != nullptr ? columns[col] : first_col + col);
      }
    });
  }

  __device__ void write_dense(unsigned chosen) const {
    T* out_row = static_cast<T*>(call_.dense) + unit_ * call_.cols;
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
    std::uint8_t* out_row = call_.mask + unit_ * call_.cols;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (col_of(r) < cols_) out_row[col_of(r)] = static_cast<std::uint8_t>(chosen >> r & 1u);
    }
  }

  const Call& call_;
  int k_;
  T* rows_;              ///< The row at hand and the next one.
  std::uint16_t* list_;  ///< Chosen columns.
  int* partials_;
  std::int64_t unit_ = 0;  ///< Row, or part of a row.
  const T* row_ = nullptr;
  int cols_ = 0;
  bool turn_ = false;

  // Learnt from the rows before: see warp_search.cuh.
  Real border_ = 0;
  Real step_ = 0;
  float weight_ = 0.5f;
  bool known_ = false;
  int failures_ = 0;
  Key hint_ = core::max_key<T> / 2;
};

template <class T, int W>
__global__ void __launch_bounds__(32 * W, (BlockShape<T, W>::kBlocksPerMultiprocessor))
    block_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(16) char shared[];
  BlockSelect<T, W>(call, shared).run();
}

}  // namespace rtopk::cuda
