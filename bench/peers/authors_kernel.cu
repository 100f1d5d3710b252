// Calls the kernel of the RTop-K paper's authors. Their rtopk_kernel.cu comes from a user's clone, through -I.

#include <cuda_runtime.h>

#include "rtopk_kernel.cu"

namespace {

template <int kWarps>
void launch(float* matrix, float* values, int* indices, int rows, int cols, int k, int max_iter, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((rows + kWarps - 1) / kWarps);
  const auto shared_bytes = kWarps * cols * sizeof(float);
  rtopk_kernel<kWarps>
      <<<blocks, kWarps * 32, shared_bytes, stream>>>(matrix, values, indices, rows, cols, k, max_iter, 0.0F);
}

}  // namespace

extern "C" int rtopk_peer_authors(float* matrix, float* values, int* indices, int rows, int cols, int k, int max_iter,
                                  cudaStream_t stream) {
  // Rows in a block by their length, as the authors' own program has it.
  const auto run = cols <= 1024 ? launch<8> : cols <= 2048 ? launch<4> : cols <= 4096 ? launch<2> : launch<1>;
  run(matrix, values, indices, rows, cols, k, max_iter, stream);
  return cudaGetLastError();
}
