// What becomes of the marks of a row: results in index order, a list of columns, and the list written. For rows of either
// layout (aligned_row.cuh, unaligned_row.cuh).
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/marks.cuh"
#include "cuda/select/result_row.cuh"

namespace rtopk::cuda {

/// The first `quota` of the elements in `eligible`, in index order. kMany: many of them may have to be cleared.
template <int G, bool kMany = false, int R>
__device__ Marks<R> first_in_index_order(Marks<R> eligible, int quota) {
  const int mine = eligible.count();
  const int before = static_cast<int>(LaneGroup<G>::inclusive_sum(static_cast<unsigned>(mine))) - mine;
  const int allowed = quota - before;
  if constexpr (kMany) {
    eligible.keep_first(allowed);
  } else {
    if (allowed <= 0) return Marks<R>::none();
    eligible.drop_last(mine - allowed);
  }
  return eligible;
}

/// Lists the columns of the selected elements, in index order.
template <class Row>
__device__ void list_chosen(const Row& row, const typename Row::Marked& chosen) {
  const int mine = chosen.count();
  const int first = static_cast<int>(Row::Group::inclusive_sum(static_cast<unsigned>(mine))) - mine;
  auto next = static_cast<std::uint32_t>(__cvta_generic_to_shared(row.list + first));
  chosen.for_each([&](int, int, int r) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(next), "h"(static_cast<std::uint16_t>(row.col_of(r))) : "memory");
    next += 2;
  });
  __syncwarp();
}

/// Writes the results of one row.
template <class Row, class T, class Index>
__device__ void write_row(const Row& row, T* values, Index* indices) {
#pragma unroll 1
  for (int i = Row::Group::lane(); i < row.k(); i += Row::Group::kLanes) {
    const int col = row.list[i];
    if (row.args.values != nullptr) values[i] = row.at(col);
    if (row.args.indices != nullptr) indices[i] = static_cast<Index>(col);
  }
}

/// Writes the results of all rows of the tile. They are contiguous in memory, so that neighbouring lanes write
/// neighbouring results for any k.
template <class Index, class Row>
__device__ void write_rows(const Row& row) {
  using T = typename Row::Type;
  const SelectArguments& args = row.args;
  const int k = row.k();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t first_row = __shfl_sync(kFullWarp, row.row, 0);
  const int list_cols = Row::Config::list_cols(args.k, args.by_value);
  const std::uint16_t* lists = row.list - Row::Group::index_in_warp() * list_cols;
  T* values = static_cast<T*>(args.values) + first_row * args.k;
  Index* indices = static_cast<Index*>(args.indices) + first_row * args.k;
  // Groups past the last row repeat an earlier one.
  const int rows = static_cast<int>(min(std::int64_t{Row::Config::kRows}, args.rows - first_row));
  int group = 0;
  int i = lane;
#pragma unroll 1
  for (int at = lane; at < rows * k; at += 32) {
    while (i >= k) {
      i -= k;
      ++group;
    }
    const int col = lists[group * list_cols + i];
    if (args.values != nullptr) values[at] = row.at(col, group, first_row + group);
    if (args.indices != nullptr) indices[at] = static_cast<Index>(col);
    i += 32;
  }
}

/// Writes the results of one row. A lane writes four at a time.
template <class Row, class T, class Index>
__device__ void write_quads(const Row& row, T* values, Index* indices) {
  struct alignas(std::min(16, 4 * static_cast<int>(sizeof(T)))) Values {
    T of[4];
  };
  struct alignas(16) Indices {
    Index of[4];
  };
#pragma unroll 1
  for (int i = 4 * Row::Group::lane(); i < row.k(); i += 4 * Row::Group::kLanes) {
    const uint2 listed = *reinterpret_cast<const uint2*>(row.list + i);
    const unsigned columns[4] = {listed.x & 0xffffu, listed.x >> 16, listed.y & 0xffffu, listed.y >> 16};
    Values four_values;
    Indices four_indices;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      four_values.of[j] = row.at(static_cast<int>(columns[j]));
      four_indices.of[j] = static_cast<Index>(columns[j]);
    }
    *reinterpret_cast<Values*>(values + i) = four_values;
    *reinterpret_cast<Indices*>(indices + i) = four_indices;
  }
}

/// Writes what is listed.
template <class Row>
__device__ void write_list(const Row& row) {
  using T = typename Row::Type;
  with_indices(row.args, row.row, [&](auto* indices) {
    using Index = std::remove_pointer_t<decltype(indices)>;
    T* values = static_cast<T*>(row.args.values) + row.row * row.args.k;
    if constexpr (sizeof(Index) >= 4) {
      if (row.args.writes_quads && row.k() >= 2 * Row::Group::kLanes) return write_quads(row, values, indices);
    }
    // With many lanes for a row, the work of a lane matters more than coalescing across rows.
    if constexpr (Row::Group::kLanes > 8) {
      write_row(row, values, indices);
    } else {
      write_rows<Index>(row);
    }
  });
}

}  // namespace rtopk::cuda
