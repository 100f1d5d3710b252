// Overlaps two kernels: the second is set up while the first runs, so that its launch costs next to nothing. See
// Grid::overlaps_previous.
#pragma once

namespace rtopk::cuda {

/// For the first kernel: from here on, its blocks do not hold back the second.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// For the second kernel, before it accesses memory: waits until the first has ended and all its writes are visible.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace rtopk::cuda
