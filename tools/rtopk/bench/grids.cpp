#include "bench/grids.hpp"

namespace rtopk::tool {
namespace {

using Extents = std::vector<std::int64_t>;

constexpr std::int64_t cpu_elements = std::int64_t{1} << 24;  // 64 MiB of f32: larger than most caches, still quick
constexpr std::int64_t gpu_elements = std::int64_t{1} << 29;

/// All pairs with k < cols, with as many rows as give every matrix the same number of elements.
std::vector<BenchShape> same_size(std::int64_t elements, const Extents& all_cols, const Extents& all_k) {
  std::vector<BenchShape> shapes;
  for (const std::int64_t cols : all_cols) {
    for (const std::int64_t k : all_k) {
      if (k < cols) shapes.push_back({elements / cols, cols, k});
    }
  }
  return shapes;
}

/// All triples with k < cols.
std::vector<BenchShape> every(const Extents& all_rows, const Extents& all_cols, const Extents& all_k) {
  std::vector<BenchShape> shapes;
  for (const std::int64_t rows : all_rows) {
    for (const std::int64_t cols : all_cols) {
      for (const std::int64_t k : all_k) {
        if (k < cols) shapes.push_back({rows, cols, k});
      }
    }
  }
  return shapes;
}

}  // namespace

const std::vector<BenchGrid>& bench_grids() {
  static const Extents paper_cols = {256, 512, 768};
  static const Extents paper_k = {16, 32, 64, 96, 128};
  static const Extents large_cols = {16384, 32768, 65536, 131072};
  static const Extents large_k = {64, 256, 1024, 2048};
  static const std::vector<BenchGrid> grids = {
      {"paper", "M 256 to 768, k 16 to 128", "N 2^14, 2^16", every({1 << 14, 1 << 16}, paper_cols, paper_k),
       "N 2^16, 2^18, 2^20", every({1 << 16, 1 << 18, 1 << 20}, paper_cols, paper_k)},
      {"sweep", "M 32 to 65536, k 8 to 512", "N * M = 2^24",
       same_size(cpu_elements, {32, 64, 128, 256, 512, 768, 1024, 4096, 8192, 65536}, {8, 32, 64, 128, 512}),
       "M 128 to 8192, k 64 to 512, N 2^16",
       every({1 << 16}, {128, 256, 512, 768, 1024, 2048, 4096, 8192}, {64, 128, 256, 512})},
      {"small", "M 32 to 128, k 2 to 8, as in expert routing", "N * M = 2^24",
       same_size(cpu_elements, {32, 64, 128}, {2, 4, 8}), "N 2^20", every({1 << 20}, {32, 64, 128}, {2, 4, 8})},
      {"large", "M 16384 to 131072, k 64 to 2048, as in sparse autoencoders", "N * M = 2^24",
       same_size(cpu_elements, large_cols, large_k), "N * M = 2^29", same_size(gpu_elements, large_cols, large_k)},
  };
  return grids;
}

}  // namespace rtopk::tool
