// Variants of the kernels for f32, u8 selectors, 256 columns, k = 32. Not part of the library.
#include "cuda/aggregate_family.cuh"
#include "stream.cuh"
#include "stream_scatter.cuh"
using namespace rtopk;
using namespace rtopk::cuda;
struct Args {
  const void *row_starts, *columns, *values, *selectors, *gradient; void* result; void* workspace; const void *places, *t_starts; void* products;
  long long rows, nodes, edges; int cols, k, piece_shift, rows_per_worker; void* stream;
};
template <class K> int go(K kernel, const AggregateCall& call, int shared, cudaStream_t s) {
  static std::atomic<std::uint64_t> allowed;
  Grid g{blocks_for(call, 128), 128, static_cast<std::size_t>(shared), 0, s};
  return launch(kernel, allowed, g, call);
}
int combine_many(const AggregateCall& c, int width, cudaStream_t s) {
  static std::atomic<std::uint64_t> allowed;
  if (c.slots == 0) return 0;
  return launch(&tuned::combine_many_kernel<float>, allowed, Grid{(c.slots + 31) / 32, 256, 0, 0, s}, c, width);
}
using U8 = std::uint8_t;
using I32 = std::int32_t;
extern "C" int tune(int variant, const Args* a) {
  AggregateCall c; c.graph = {.row_starts = a->row_starts, .columns = a->columns, .weights = nullptr, .edges = a->edges, .rows = (int)a->rows, .nodes = (int)a->nodes, .wide = false};
  c.values = a->values; c.selectors = a->selectors; c.gradient = a->gradient; c.result = a->result; c.atomic_sums = (float*)a->result;
  c.piece_shift = a->piece_shift; c.slots = (int)(a->edges >> a->piece_shift); c.rows_per_worker = a->rows_per_worker; c.cols = a->cols; c.k = a->k; c.writes_quads = c.copies_quads = true;
  if (variant < 200) { c.slot_rows = (int*)a->workspace; c.partial_sums = (float*)((char*)a->workspace + ((c.slots * 4ll + 255) / 256 * 256)); }
  auto s = (cudaStream_t)a->stream; int e = 0;
  const int s4 = 4 * 4 * RowSums<4>::words(5), s2 = 4 * 4 * RowSums<2>::words(4), s1 = 4 * 4 * (256 + 32), st = 4 * 4 * 256;
  if (variant < 100) {
    c.window_shift = variant >= 50 ? 4 : variant >= 10 ? 8 : 5;
    switch (variant) {
      case 4: e = go(&rows_kernel<float, U8, 4, 4, 1, 10>, c, s4, s); break;
      case 52: e = go(&rows_kernel<float, U8, 2, 2, 4, 8>, c, s2, s); break;
      case 10: e = go(&tuned::stream_kernel<float, U8, I32, false, 1, 4, 9>, c, s1, s); break;
      case 11: e = go(&tuned::stream_kernel<float, U8, I32, false, 1, 4, 10>, c, s1, s); break;
      case 12: e = go(&tuned::stream_kernel<float, U8, I32, false, 1, 8, 8>, c, s1, s); break;
      case 13: e = go(&tuned::stream_kernel<float, U8, I32, false, 1, 8, 10>, c, s1, s); break;
      case 14: e = go(&tuned::stream_kernel<float, U8, I32, false, 1, 16, 6>, c, s1, s); break;
      case 15: e = go(&tuned::stream_kernel<float, U8, I32, false, 1, 8, 8, false>, c, s1, s); break;
      case 16: e = go(&stream_kernel<float, U8, false, 1>, c, s1, s); break;  // the library's
      case 20: e = go(&tuned::stream_kernel<float, U8, I32, false, 2, 4, 9, true, 2>, c, 16 * (512 + 32), s); break;
      case 21: e = go(&tuned::stream_kernel<float, U8, I32, false, 2, 8, 7, true, 2>, c, 16 * (512 + 32), s); break;
      case 22: e = go(&tuned::stream_kernel<float, U8, I32, false, 4, 1, 9, true, 4>, c, 16 * (1024 + 32), s); break;
      case 23: e = go(&tuned::stream_kernel<float, U8, I32, false, 4, 2, 8, true, 4>, c, 16 * (1024 + 32), s); break;
      case 24: e = go(&tuned::stream_kernel<float, U8, I32, false, 4, 4, 7, true, 4>, c, 16 * (1024 + 32), s); break;
      default: return -1;
    }
    return e ? e : combine_many(c, c.cols, s);
  }
  if (variant < 200) {
    if (variant == 100) { e = go(&gather_kernel<float, U8, 8, 8>, c, 0, s); return e ? e : combine_many(c, c.k, s); }
    // Products in the order of A^T, then their sums. rows/columns of the call are those of A.
    AggregateCall p = c; p.degree_starts = a->places; p.atomic_sums = (float*)a->products; p.slot_rows = nullptr;
    e = go(&tuned::scatter_stream_kernel<float, U8, I32, false, 4, 4, 8, true>, p, 2 * st, s);
    c.graph.row_starts = a->t_starts; c.graph.rows = (int)a->nodes; c.gradient = a->products; c.rows_per_worker = 1;
    if (!e) e = go(&tuned::sum_products_kernel<8>, c, 0, s);
    return e ? e : combine_many(c, c.k, s);
  }
  cudaMemsetAsync(a->result, 0, a->nodes * a->k * 4, s);
  switch (variant) {
    case 200: return go(&scatter_kernel<float, U8, 4, true, 4, 9>, c, st, s);
    case 210: return go(&tuned::scatter_stream_kernel<float, U8, I32, false, 4, 2, 9>, c, 2 * st, s);
    case 211: return go(&tuned::scatter_stream_kernel<float, U8, I32, false, 4, 4, 8>, c, 2 * st, s);
    case 212: return go(&tuned::scatter_stream_kernel<float, U8, I32, false, 4, 2, 10>, c, 2 * st, s);
    case 213: return go(&tuned::scatter_stream_kernel<float, U8, I32, false, 4, 8, 7>, c, 2 * st, s);
    case 215: return go(&stream_scatter_kernel<float, U8, false, 4, true>, c, 2 * st, s);  // the library's
    case 214: return go(&tuned::scatter_stream_kernel<float, U8, I32, false, 4, 1, 12>, c, 2 * st, s);
  }
  return -1;
}
