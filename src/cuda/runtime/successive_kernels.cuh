// Two kernels of which the second is set up while the first is at work, so that its launch costs next to nothing. See
// Grid::overlaps_previous.
#pragma once

namespace rtopk::cuda {

/// In the first: its blocks hold nothing back from here on.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// In the second, before it touches memory: waits until the first has ended and everything that it wrote can be read.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace rtopk::cuda
