// Variants of the kernels for f32, u8 selectors, 256 columns, k = 32. Not part of the library.
#include "cuda/aggregate_family.cuh"
using namespace rtopk;
using namespace rtopk::cuda;
struct Args {
  const void *row_starts, *columns, *values, *selectors, *gradient; void* result; void* workspace;
  long long rows, nodes, edges; int cols, k, piece_shift, rows_per_worker; void* stream;
};
template <class K> int go(K kernel, const AggregateCall& call, int shared, cudaStream_t s) {
  static std::atomic<std::uint64_t> allowed;
  Grid g{blocks_for(call, 128), 128, static_cast<std::size_t>(shared), 0, s};
  return launch(kernel, allowed, g, call);
}
extern "C" int tune(int variant, const Args* a) {
  AggregateCall c; c.graph = {.row_starts = a->row_starts, .columns = a->columns, .weights = nullptr, .edges = a->edges, .rows = (int)a->rows, .nodes = (int)a->nodes, .wide = false};
  c.values = a->values; c.selectors = a->selectors; c.gradient = a->gradient; c.result = a->result; c.atomic_sums = (float*)a->result;
  c.piece_shift = a->piece_shift; c.slots = (int)(a->edges >> a->piece_shift); c.rows_per_worker = a->rows_per_worker; c.cols = a->cols; c.k = a->k; c.writes_quads = true;
  if (variant < 200) { c.slot_rows = (int*)a->workspace; c.partial_sums = (float*)((char*)a->workspace + ((c.slots * 4ll + 255) / 256 * 256)); }
  auto s = (cudaStream_t)a->stream; Grid grid{0, 0, 0, 0, s}; int e = 0;
  const int s4 = 4 * 4 * RowSums<4>::words(5), s2 = 4 * 4 * RowSums<2>::words(4), st = 4 * 4 * 256;
  if (variant < 100) {
    c.window_shift = variant >= 50 ? 4 : 5;
    switch (variant) {
      case 0: e = go(&rows_kernel<float, std::uint8_t, 4, 4, 4, 7>, c, s4, s); break;
      case 1: e = go(&rows_kernel<float, std::uint8_t, 4, 4, 2, 8>, c, s4, s); break;
      case 2: e = go(&rows_kernel<float, std::uint8_t, 4, 4, 2, 10>, c, s4, s); break;
      case 3: e = go(&rows_kernel<float, std::uint8_t, 4, 4, 8, 5>, c, s4, s); break;
      case 4: e = go(&rows_kernel<float, std::uint8_t, 4, 4, 1, 10>, c, s4, s); break;
      case 50: e = go(&rows_kernel<float, std::uint8_t, 2, 2, 4, 7>, c, s2, s); break;
      case 51: e = go(&rows_kernel<float, std::uint8_t, 2, 2, 2, 10>, c, s2, s); break;
      case 52: e = go(&rows_kernel<float, std::uint8_t, 2, 2, 4, 8>, c, s2, s); break;
      case 53: e = go(&rows_kernel<float, std::uint8_t, 2, 2, 8, 6>, c, s2, s); break;
    }
    return e ? e : launch_combine<float>(c, c.cols, grid);
  }
  if (variant < 200) {
    switch (variant) {
      case 100: e = go(&gather_kernel<float, std::uint8_t, 8, 8>, c, 0, s); break;
      case 101: e = go(&gather_kernel<float, std::uint8_t, 16, 8>, c, 0, s); break;
      case 102: e = go(&gather_kernel<float, std::uint8_t, 4, 10>, c, 0, s); break;
    }
    return e ? e : launch_combine<float>(c, c.k, grid);
  }
  cudaMemsetAsync(a->result, 0, a->nodes * a->k * 4, s);
  switch (variant) {
    case 200: return go(&scatter_kernel<float, std::uint8_t, 4, true, 4, 9>, c, st, s);
    case 201: return go(&scatter_kernel<float, std::uint8_t, 4, true, 8, 8>, c, st, s);
    case 202: return go(&scatter_kernel<float, std::uint8_t, 2, true, 4, 9>, c, st, s);
    case 203: return go(&scatter_kernel<float, std::uint8_t, 1, true, 4, 9>, c, st, s);
    case 204: return go(&scatter_kernel<float, std::uint8_t, 4, true, 2, 10>, c, st, s);
  }
  return -1;
}
