// Writes the results of a short general row, which are listed: values, indices as the caller wants them, what fills a
// short row, and the kth value.
#pragma once

#include <bit>
#include <cstdint>

#include "core/rows.hpp"
#include "cuda/select/result_row.cuh"
#include "cuda/select/warp/ragged/row.cuh"

namespace rtopk::cuda {

/// The place of the kth value: of the results with the least key, the last. All lanes of the warp call this.
template <class T, int G, int R>
__device__ int place_of_kth(const RaggedRow<T, G, R>& row) {
  using Key = typename Element<T>::SortKey;
  if (row.args.by_value) return row.list[row.k() - 1];
  const auto key_of = [&](int i) { return static_cast<Key>(directed_key(row.at(row.list[i]), row.args.smallest)); };
  Key least = ~Key{0};
  for (int i = LaneGroup<G>::lane(); i < row.k(); i += G) least = min(least, key_of(i));
  least = LaneGroup<G>::least(least);
  std::uint32_t last = 0;
  for (int i = LaneGroup<G>::lane(); i < row.k(); i += G) {
    if (key_of(i) == least) last = max(last, std::uint32_t{row.list[i]});
  }
  return static_cast<int>(LaneGroup<G>::greatest(last));
}

template <class T, int G, int R>
__device__ void write_list(const RaggedRow<T, G, R>& row) {
  using Bits = core::KeyOf<T>;
  const RaggedArguments& args = row.args;
  const RowRules& rules = args.rules;
  const T loses = std::bit_cast<T>(static_cast<Bits>(rules.losing_bits));
  if (rules.finishes && rules.thresholds != nullptr) {
    const int place = place_of_kth(row);
    if (LaneGroup<G>::lane() == 0) {
      static_cast<T*>(rules.thresholds)[row.row] = row.is_short ? loses : row.elements[place];
    }
  }
  const auto map = core::RowMap::of(rules.map, rules.arrays, core::exists(rules.ragged.offsets), row.row);
  const ResultRow<T> result(args, row.row);
#pragma unroll 1
  for (int i = LaneGroup<G>::lane(); i < static_cast<int>(args.k); i += G) {
    if (i >= row.results) {
      if (rules.finishes) result.write(i, loses, -1);
      continue;
    }
    const int place = row.list[i];
    result.write(i, row.elements[place], rules.finishes ? map.index(row.start, place) : place);
  }
}

}  // namespace rtopk::cuda
