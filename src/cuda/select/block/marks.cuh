// Marks of a thread's elements: one bit each, 32 to a word, the first element's in the highest bit.
#pragma once

#include <cstdint>

#include "cuda/select/at_most.cuh"
#include "plan/select/tuning_block.hpp"

namespace rtopk::cuda {

/// A thread's chunk of 32 words, which are neighbours in shared memory, in vectors of 16 bytes. Chunks of neighbouring
/// lanes begin in the same bank: each lane begins with another of its vectors, so that eight lanes read all banks.
template <int kWordBytes>
struct ChunkVectors {
  static constexpr int kNumber = 32 * kWordBytes / 16;

  /// The vector that this lane reads in a turn.
  static __device__ int in_turn(int turn) {
    return static_cast<int>((static_cast<unsigned>(turn) + threadIdx.x) % static_cast<unsigned>(kNumber));
  }
  /// `chunk`: an address in shared memory, a multiple of the chunk's size.
  static __device__ uint4 load(std::uint32_t chunk, int turn) {
    uint4 vector;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(vector.x), "=r"(vector.y), "=r"(vector.z), "=r"(vector.w)
                 : "r"(chunk | static_cast<std::uint32_t>(in_turn(turn) * 16))
                 : "memory");
    return vector;
  }
};

/// Compares a chunk with one bound, or with two at a time. One element a word.
template <class T, bool kMagnitude>
struct BlockChunk {
  using Bound = typename AtMost<T>::Bound;
  static constexpr int kMarkWords = 1;

  template <bool kTwo>
  static __device__ void at_most(std::uint32_t from, Bound a, Bound b, unsigned (&of_a)[1], unsigned (&of_b)[1]) {
    using Vectors = ChunkVectors<sizeof(T)>;
    constexpr int kOf = 16 / static_cast<int>(sizeof(T));  // elements of a vector
    constexpr int kBits = 16;                              // of a sum
    float sums_a[2] = {AtMost<T>::kNoMarks, AtMost<T>::kNoMarks};
    float sums_b[2] = {AtMost<T>::kNoMarks, AtMost<T>::kNoMarks};
#pragma unroll
    for (int turn = 0; turn < Vectors::kNumber; ++turn) {
      const uint4 vector = Vectors::load(from, turn);
      const auto* elements = reinterpret_cast<const Bound*>(&vector);
#pragma unroll
      for (int j = 0; j < kOf; ++j) {
        const int bit = turn * kOf + j;
        const Bound x = kMagnitude ? AtMost<T>::magnitude(elements[j]) : elements[j];
        const auto power = static_cast<float>(1 << (kBits - 1 - bit % kBits));
        sums_a[bit / kBits] = fmaf(AtMost<T>::one(x, a), power, sums_a[bit / kBits]);
        if constexpr (kTwo) sums_b[bit / kBits] = fmaf(AtMost<T>::one(x, b), power, sums_b[bit / kBits]);
      }
    }
    of_a[0] = in_order(sums_a, Vectors::in_turn(0) * kOf);
    of_b[0] = in_order(sums_b, Vectors::in_turn(0) * kOf);
  }

 private:
  /// The lower halves of two sums make one word, which begins with the marks of element `first`.
  static __device__ unsigned in_order(const float (&sums)[2], int first) {
    const unsigned marks = __byte_perm(__float_as_uint(sums[1]), __float_as_uint(sums[0]), 0x5410);
    return __funnelshift_r(marks, marks, static_cast<unsigned>(first));
  }
};

/// Two elements a word, compared by one instruction.
template <class T, bool kMagnitude>
struct BlockPairs {
  using Bound = unsigned;
  static constexpr int kMarkWords = 2;

  template <bool kTwo>
  static __device__ void at_most(std::uint32_t from, Bound a, Bound b, unsigned (&of_a)[2], unsigned (&of_b)[2]) {
    using Vectors = ChunkVectors<4>;
    // The elements of the first 16 words go to the upper halves of registers, those of the others to the lower ones.
    unsigned halves_a[2] = {};
    unsigned halves_b[2] = {};
#pragma unroll
    for (int turn = 0; turn < Vectors::kNumber / 2; ++turn) {
      const uint4 first = Vectors::load(from, turn);
      const uint4 second = Vectors::load(from, turn + Vectors::kNumber / 2);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = turn * 4 + j;
        const unsigned low = compared(__byte_perm(word(second, j), word(first, j), 0x5410));
        const unsigned high = compared(__byte_perm(word(second, j), word(first, j), 0x7632));
        const unsigned bit = 0x80008000u >> (2 * i % 16);
        halves_a[i / 8] |= PairAtMost<T>::halves(low, a) & bit;
        if constexpr (kTwo) halves_b[i / 8] |= PairAtMost<T>::halves(low, b) & bit;
        halves_a[i / 8] |= PairAtMost<T>::halves(high, a) & bit >> 1;
        if constexpr (kTwo) halves_b[i / 8] |= PairAtMost<T>::halves(high, b) & bit >> 1;
      }
    }
    in_order(halves_a, Vectors::in_turn(0) * 8, of_a);
    in_order(halves_b, Vectors::in_turn(0) * 8, of_b);
  }

 private:
  static __device__ unsigned word(const uint4& vector, int j) {
    return j == 0 ? vector.x : j == 1 ? vector.y : j == 2 ? vector.z : vector.w;
  }
  static __device__ unsigned compared(unsigned pair) { return kMagnitude ? AtMost<T>::magnitude(pair) : pair; }

  /// Marks of 64 elements, which begin with that of element `first`.
  static __device__ void in_order(const unsigned (&halves)[2], int first, unsigned (&marks)[2]) {
    const unsigned upper = __byte_perm(halves[1], halves[0], 0x7632);
    const unsigned lower = __byte_perm(halves[1], halves[0], 0x5410);
    const unsigned high = first < 32 ? upper : lower;
    const unsigned low = first < 32 ? lower : upper;
    marks[0] = __funnelshift_r(high, low, static_cast<unsigned>(first));
    marks[1] = __funnelshift_r(low, high, static_cast<unsigned>(first));
  }
};

template <bool kMagnitude>
struct BlockChunk<core::F16, kMagnitude> : BlockPairs<core::F16, kMagnitude> {};
template <bool kMagnitude>
struct BlockChunk<core::BF16, kMagnitude> : BlockPairs<core::BF16, kMagnitude> {};

/// Marks of the first `number` of 32 elements; it may be out of range.
__device__ inline unsigned first_marks(int number) { return number <= 0 ? 0u : number >= 32 ? ~0u : ~(~0u >> number); }

}  // namespace rtopk::cuda
