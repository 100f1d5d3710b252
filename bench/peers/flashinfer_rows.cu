// Calls FlashInfer's top-k of rows with lengths, whose indices become places in a paged cache or are shifted. Its headers
// come from a user's folder, through -I. The elements are RTOPK_PEER_ELEMENT.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// topk.cuh needs both this and <cstring> before it, and includes neither.
#include <flashinfer/math.cuh>

#include <flashinfer/topk.cuh>

namespace {

namespace theirs = flashinfer::sampling;
using Element = RTOPK_PEER_ELEMENT;

theirs::TopKTieBreak ties(int lowest) { return lowest != 0 ? theirs::TopKTieBreak::Small : theirs::TopKTieBreak::None; }

}  // namespace

// `states` is memory of 1 MiB, zero before the first call: the kernels leave it as they found it. `lowest` asks for the
// lowest indices of ties.
extern "C" int rtopk_peer_flashinfer_pages(Element* matrix, const int* table, int* lengths, int* places, void* states,
                                           int rows, int cols, int k, int pages, int page_bits, int lowest,
                                           cudaStream_t stream) {
  const theirs::ConfigurablePageTableKernelPolicy<int> in_pages(nullptr, cols, static_cast<std::uint32_t>(page_bits));
  return theirs::TopKPageTableTransformDispatch<Element, int>(
      matrix, places, table, pages, lengths, nullptr, nullptr, rows, k, cols,
      static_cast<theirs::RadixRowState*>(states), false, ties(lowest), stream, false, nullptr, in_pages);
}

// `shifts` has what is added to the columns of each row.
extern "C" int rtopk_peer_flashinfer_ragged(Element* matrix, const int* shifts, int* lengths, int* indices,
                                            void* states, int rows, int cols, int k, int lowest, cudaStream_t stream) {
  return theirs::TopKRaggedTransformDispatch<Element, int>(matrix, indices, shifts, lengths, nullptr, rows, k, cols,
                                                           static_cast<theirs::RadixRowState*>(states), false,
                                                           ties(lowest), stream);
}
