// What a kernel writes as the index of a result: its place in the row, or what a general row's places are mapped to.
#pragma once

#include <cstdint>

#include "core/rows.hpp"
#include "cuda/select/arguments.hpp"
#include "cuda/select/general_row.cuh"

namespace rtopk::cuda {

/// Of plain rows.
struct PlaceAsIndex {
  __device__ int operator()(int place) const { return place; }
};

/// Of a general row. It is made before a loop over results, so that what it needs is in registers.
class MappedIndex {
 public:
  template <class Arguments>
  __device__ explicit MappedIndex(const GeneralRow<Arguments>& row)
      : map_(row.map),
        shift_(!row.maps                            ? 0
               : row.map.kind == IndexKind::shifted ? row.map.shift
                                                    : row.start),
        log_page_(row.map.kind == IndexKind::pages && row.map.type == ArrayType::i32 ? row.log_page : -1),
        adds_(!row.maps || row.map.kind == IndexKind::column || row.map.kind == IndexKind::shifted) {}

  __device__ std::int64_t operator()(int place) const {
    if (adds_) return core::wrapped_sum(shift_, place);
    if (log_page_ < 0) return mapped(map_, shift_, place);
    const int page = place >> log_page_;
    if (page >= map_.pages) return -1;
    const std::int64_t entry = __ldg(static_cast<const std::int32_t*>(map_.entries) + page);
    return entry < 0 ? -1 : (entry << log_page_) + (place & ((1 << log_page_) - 1));
  }

 private:
  /// Not inlined, so that it costs the selection no registers.
  static __device__ __noinline__ std::int64_t mapped(const core::RowMap& map, std::int64_t start, int place) {
    return map.index(start, place);
  }

  const core::RowMap& map_;
  std::int64_t shift_;
  int log_page_;  ///< Negative: not the usual page table, of 32 bits and pages of a power of two.
  bool adds_;     ///< An index is the place and a number.
};

__device__ inline PlaceAsIndex index_writer(const SelectArguments&) { return {}; }
template <class Arguments>
__device__ MappedIndex index_writer(const GeneralRow<Arguments>& row) {
  return MappedIndex(row);
}

}  // namespace rtopk::cuda
