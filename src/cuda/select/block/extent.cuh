// The extremes of a row in shared memory, or of a block's part of one, for searches that stop early.
#pragma once

#include "cuda/select/block/row.cuh"
#include "cuda/select/extremes.cuh"

namespace rtopk::cuda {

/// All threads call this. `extent` is as for widen().
template <class T>
__device__ void measure(const BlockRow<T>& row, bool smallest, RowExtent<WideKey<T>>& extent) {
  constexpr int kVector = BlockRow<T>::kVector;
  const auto thread = static_cast<int>(threadIdx.x);
  const T* elements = row.elements();
  ExtremesOf<T> own;
  const auto* vectors = reinterpret_cast<const uint4*>(elements);
  const int whole_end = row.end() / kVector;
#pragma unroll 2
  for (int i = (row.begin() + kVector - 1) / kVector + thread; i < whole_end; i += static_cast<int>(blockDim.x)) {
    own.add(vectors[i]);
  }
  // The first vector and the last one may have elements of other rows.
  if (thread < kVector) {
    if (thread >= row.begin() && thread < row.end()) own.add(elements[thread]);
    if (whole_end * kVector + thread < row.end()) own.add(elements[max(whole_end * kVector + thread, row.begin())]);
  }
  widen<T>(extent, own, smallest);
}

}  // namespace rtopk::cuda
