// Copies a row at any address to shared memory, where it lies as it does in memory.
#pragma once

#include <cstdint>

#include "cuda/runtime/async_copy.cuh"
#include "cuda/runtime/lanes.cuh"

namespace rtopk::cuda {

/// Starts to copy a row: G lanes, up to kCopies vectors each. Vectors are copied whole, because what lies around a row is
/// mostly other rows. The first vector of the input and the last one may reach outside of it: then they are copied
/// element by element. `from`: the row's first vector; `lead`: its elements before the row; `end`: those up to the end of
/// the row.
template <int G, int kCopies, class T>
__device__ void copy_row(T* slot, const T* from, int lead, int end, bool begins_outside, bool ends_outside) {
  using Group = LaneGroup<G>;
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  const int vectors = (end + kVector - 1) / kVector;
  const int whole = vectors - (ends_outside ? 1 : 0);
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(slot)) + Group::lane() * 16;
  const T* mine = opaque(from + Group::lane() * kVector);
#pragma unroll
  for (int i = 0; i < kCopies; ++i) {
    const int vector = i * G + Group::lane();
    const bool copies = vector < whole && !(i == 0 && begins_outside && vector == 0);
    if (copies) copy_async_once<false>(to + i * G * 16, mine + i * G * kVector);
  }
  if (begins_outside || ends_outside) {
#pragma unroll 1
    for (int j = Group::lane(); j < 2 * kVector; j += G) {
      const int element = j < kVector ? j : (vectors - 1) * kVector + j - kVector;
      const bool wanted = j < kVector ? begins_outside : ends_outside;
      if (wanted && element >= lead && element < end) slot[element] = from[element];
    }
  }
  commit_copies();
}

}  // namespace rtopk::cuda
