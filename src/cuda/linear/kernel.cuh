// C = A B of f32 matrices on tensor cores that multiply bf16. An f32 number is the sum of three bf16 numbers. Of the
// nine products of parts, the six that are large enough to matter in f32 are summed.
//
// A block has 64 x 128 sums. Every thread loads the elements of A that it multiplies, and splits them in registers. B
// is split on its way to shared memory: a step of 32 of the depth goes to one half while the other half is multiplied.
// Tensor cores truncate sums where f32 would round. So the sums of one step are added to the others in f32.
#pragma once

#include "cuda/linear/launch.hpp"
#include "cuda/linear/warpgroup.cuh"

namespace rtopk::cuda {

inline constexpr int kLinearParts = 3;  ///< bf16 numbers whose sum is an f32 number, the largest first.

/// Splits two numbers: each part holds two bf16 numbers.
__device__ inline void take_apart(float x, float y, unsigned& high, unsigned& middle, unsigned& low) {
  const auto leading = [](float first, float second) {
    return __byte_perm(__float_as_uint(first), __float_as_uint(second), 0x7632);
  };
  const auto rest = [](float whole) { return whole - __uint_as_float(__float_as_uint(whole) & 0xffff0000u); };
  high = leading(x, y);
  x = rest(x);
  y = rest(y);
  middle = leading(x, y);
  low = leading(rest(x), rest(y));
}

/// kAlongA, kAlongB: true if the depth is contiguous in memory, so that A is m x depth and B is n x depth. Otherwise A
/// is depth x m and B is depth x n.
template <bool kAlongA, bool kAlongB>
class DenseProduct {
  static constexpr int kUnitsOfThread = kLinearUnits / kLinearThreads;
  static constexpr int kUnitsOfRow = kAlongB ? kLinearStep / 8 : kLinearTileN / 8;
  static constexpr int kHalves = kLinearStep / 16;  ///< Of a step: the depth of one instruction is 16.

  // Distances in shared memory between matrices of eight by eight.
  static constexpr int kWide = kAlongB ? 128 : 144;
  static constexpr int kDeep = kLinearTileN / 8 * kWide + (kAlongB ? 32 : 0);
  static_assert(kLinearStep / 8 * kDeep <= kLinearPartBytes);

 public:
  __device__ DenseProduct(const LinearArguments& args, char* shared)
      : args_(args), shared_(shared), address_(static_cast<unsigned>(__cvta_generic_to_shared(shared))) {
    const LinearShape& shape = args.shape;
    const std::int64_t tile = blockIdx.x % shape.tiles();
    part_ = blockIdx.x / shape.tiles();
    row_ = tile / shape.tiles_n() * kLinearTileM + thread() / 32 * 16 + thread() % 32 / 4;
    column_ = tile % shape.tiles_n() * kLinearTileN;
    const std::int64_t first = part_ * args.depth_of_part;
    const std::int64_t left = min(args.depth_of_part, shape.depth - first);
    left_ = static_cast<int>(max(left, std::int64_t{0}));
    // Rows and columns past the last are read as the last, and not written.
    const std::int64_t k = first + 2 * (thread() % 4);
    for (int i = 0; i < 2; ++i) {
      const std::int64_t row = min(row_ + 8 * i, shape.m - 1);
      a_[i] = args.a + (kAlongA ? row * shape.depth + k : k * shape.m + row);
    }
    for (int i = 0; i < kUnitsOfThread; ++i) {
      const int major = unit(i) / kUnitsOfRow;
      const int minor = unit(i) % kUnitsOfRow * 8;
      b_[i] = args.b + (kAlongB ? min(column_ + major, shape.n - 1) * shape.depth + first + minor
                                : (first + major) * shape.n + min(column_ + minor, shape.n - 4));
    }
    second_quad_ = kAlongB || column_ + unit(0) % kUnitsOfRow * 8 + 4 < shape.n ? 4 : 0;
  }

  __device__ void run() {
    const int steps = left_ == 0 ? 0 : (left_ - 1) / kLinearStep + 1;
    read();
    store(0);
    take_rows_apart();
    if (steps > 1) read();
    __syncthreads();
    // Invariant: step `step` of B is in half step % 2 of shared memory, and of A in `rows_`; step + 1 has been read.
    for (int step = 0; step < steps; ++step) {
      add_step(step % 2);
      if (step + 1 < steps) {
        store((step + 1) % 2);
        take_rows_apart();
      }
      if (step + 2 < steps) read();
      __syncthreads();
    }
    write();
  }

 private:
  [[nodiscard]] static __device__ int thread() { return static_cast<int>(threadIdx.x); }
  /// The units of B in a step that this thread loads.
  [[nodiscard]] static __device__ int unit(int i) { return thread() + i * kLinearThreads; }

  /// Reads the next step of both from global memory; zeros past the last.
  __device__ void read() {
    const LinearShape& shape = args_.shape;
#pragma unroll
    for (int i = 0; i < kUnitsOfThread; ++i) {
#pragma unroll
      for (int quad = 0; quad < 2; ++quad) {
        const bool there = (kAlongB ? unit(i) % kUnitsOfRow * 8 + 4 * quad : unit(i) / kUnitsOfRow) < left_;
        read_b_[i][quad] =
            there ? __ldg(reinterpret_cast<const float4*>(b_[i] + quad * second_quad_)) : float4{0, 0, 0, 0};
      }
      b_[i] += kAlongB ? kLinearStep : kLinearStep * shape.n;
    }
    const int left = left_ - 2 * (thread() % 4);
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* const from = a_[i % 2];
        const int k = 16 * half + 8 * (i / 2);
        float2 pair{0, 0};
        if constexpr (kAlongA) {
          if (k < left) pair = __ldg(reinterpret_cast<const float2*>(from + k));
        } else {
          if (k < left) pair.x = __ldg(from + k * shape.m);
          if (k + 1 < left) pair.y = __ldg(from + (k + 1) * shape.m);
        }
        read_a_[half][i] = pair;
      }
    }
    a_[0] += kAlongA ? kLinearStep : kLinearStep * shape.m;
    a_[1] += kAlongA ? kLinearStep : kLinearStep * shape.m;
    left_ -= kLinearStep;
  }

  __device__ void take_rows_apart() {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        take_apart(read_a_[half][i].x, read_a_[half][i].y, rows_[half][0][i], rows_[half][1][i], rows_[half][2][i]);
      }
    }
  }

  /// Splits what was read of B, and stores it to one half of shared memory.
  __device__ void store(int half) const {
#pragma unroll
    for (int i = 0; i < kUnitsOfThread; ++i) {
      const float4 first = read_b_[i][0];
      const float4 second = read_b_[i][1];
      uint4 parts[kLinearParts];
      take_apart(first.x, first.y, parts[0].x, parts[1].x, parts[2].x);
      take_apart(first.z, first.w, parts[0].y, parts[1].y, parts[2].y);
      take_apart(second.x, second.y, parts[0].z, parts[1].z, parts[2].z);
      take_apart(second.z, second.w, parts[0].w, parts[1].w, parts[2].w);
      const int major = unit(i) / kUnitsOfRow;
      const int minor = unit(i) % kUnitsOfRow;
      const int place =
          major % 8 * 16 + (kAlongB ? major / 8 * kWide + minor * kDeep : minor * kWide + major / 8 * kDeep);
#pragma unroll
      for (int part = 0; part < kLinearParts; ++part) {
        *reinterpret_cast<uint4*>(shared_ + half * kLinearStepBytes + part * kLinearPartBytes + place) = parts[part];
      }
    }
    show_to_matrix_units();
  }

  __device__ void add_step(int half_of_shared) {
    const auto columns = [&](int half, int part) {
      return describe(address_ + half_of_shared * kLinearStepBytes + part * kLinearPartBytes + 2 * half * kDeep, kDeep,
                      kWide);
    };
    WarpgroupSums step;
    begin_products();
    // The smallest products first.
    multiply<!kAlongB, false>(step, rows_[0][2], columns(0, 0));
    multiply<!kAlongB, true>(step, rows_[1][2], columns(1, 0));
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      multiply<!kAlongB, true>(step, rows_[half][1], columns(half, 1));
      multiply<!kAlongB, true>(step, rows_[half][0], columns(half, 2));
    }
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      multiply<!kAlongB, true>(step, rows_[half][1], columns(half, 0));
      multiply<!kAlongB, true>(step, rows_[half][0], columns(half, 1));
    }
#pragma unroll
    for (int half = 0; half < kHalves; ++half) multiply<!kAlongB, true>(step, rows_[half][0], columns(half, 0));
    finish_products(step);
#pragma unroll
    for (int i = 0; i < 64; ++i) sums_[i] += step[i];
  }

  __device__ void write() const {
    const LinearShape& shape = args_.shape;
    float* const result = args_.result + part_ * shape.m * shape.n;
#pragma unroll
    for (int i = 0; i < kLinearTileN / 8; ++i) {
      const std::int64_t column = column_ + 8 * i + 2 * (thread() % 4);
      if (column >= shape.n) break;
      float2 bias{0, 0};
      if (args_.bias != nullptr) bias = __ldg(reinterpret_cast<const float2*>(args_.bias + column));
#pragma unroll
      for (int below = 0; below < 2; ++below) {
        const std::int64_t row = row_ + 8 * below;
        if (row >= shape.m) continue;
        *reinterpret_cast<float2*>(result + row * shape.n + column) = {sums_[4 * i + 2 * below] + bias.x,
                                                                       sums_[4 * i + 2 * below + 1] + bias.y};
      }
    }
  }

  const LinearArguments& args_;
  char* shared_;
  unsigned address_;
  std::int64_t part_;
  std::int64_t row_;     ///< Of C: this thread's first.
  std::int64_t column_;  ///< Of C: the block's first.
  int left_;             ///< Depth of this part that was not read yet.
  int second_quad_;      ///< Offset from the first four columns of a unit to the others, if they exist.
  const float* a_[2];
  const float* b_[kUnitsOfThread];
  float2 read_a_[kHalves][4];
  float4 read_b_[kUnitsOfThread][2];
  unsigned rows_[kHalves][kLinearParts][4];
  WarpgroupSums sums_ = {};
};

template <bool kAlongA, bool kAlongB>
__global__ void __launch_bounds__(kLinearThreads, kLinearBlocksPerMultiprocessor)
    linear_kernel(const __grid_constant__ LinearArguments args) {
  extern __shared__ __align__(128) char shared[];
  DenseProduct<kAlongA, kAlongB>(args, shared).run();
}

}  // namespace rtopk::cuda
