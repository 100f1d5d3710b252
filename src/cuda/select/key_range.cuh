// Ranges of directed keys, and how many elements they hold.
#pragma once

#include <cstdint>
#include <type_traits>

namespace rtopk::cuda {

/// A directed key as a word that arithmetic does not promote.
template <class T>
using WideKey = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class Key>
struct KeyRange {
  Key low;
  Key high;
};

/// Numbers of elements: at or above the low end of a range, above its high end.
struct RangeCounts {
  int reach;
  int above;
};

/// What of a block's elements is selected: all above the kth value, and the first `quota` of those equal to it.
struct SelectedShare {
  int quota;
  int first_result;  ///< Of the row's results, the first that is this block's.
};

}  // namespace rtopk::cuda
