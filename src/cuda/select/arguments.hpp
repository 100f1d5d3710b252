// Kernel arguments of a selection.
#pragma once

#include <cstdint>

#include <rtopk/types.hpp>

namespace rtopk::cuda {

/// The kth value expected of a normally distributed row. It affects only the speed of the search, never the result.
struct Expectation {
  float kth = 0;   ///< The kth value, in standard deviations above the mean.
  float step = 0;  ///< The distance from one rank to the next there, in the same unit.
};

struct SelectArguments {
  const void* input = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
  std::int64_t k = 0;

  void* values = nullptr;   ///< Null: not wanted.
  void* indices = nullptr;  ///< Null: not wanted.
  void* dense = nullptr;
  std::uint8_t* mask = nullptr;
  std::int32_t* passes = nullptr;  ///< Null: not wanted.

  IndexType index_type = IndexType::i64;
  Form form = Form::pairs;
  bool smallest = false;
  bool by_value = false;
  bool magnitude = false;  ///< Elements compare by their absolute value.

  bool bisection = false;       ///< The paper's search, possibly stopped early.
  bool passes_in_warp = false;  ///< cuda_warp makes the passes, instead of deriving the result.
  std::int32_t max_iter = 0;
  Rule rule = Rule::threshold_first;  ///< Of max_iter.
  double epsilon = 0.0;

  void* workspace = nullptr;  ///< Aligned to 256 bytes.

  std::int32_t access_bytes = 0;  ///< Widest aligned access that rows of the input allow, 1 to 16.
  std::int32_t dense_access_bytes = 0;
  std::int32_t mask_access_bytes = 0;
  bool writes_quads = false;  ///< Values and indices are both wanted, and four results can be written in one access.
  bool spares_cache = false;  ///< The input is small: its loads should not evict other data from the cache.
  std::int64_t batch_length = 1;  ///< Tiles of a warp of cuda_warp or cuda_tournament.

  Expectation expectation;
};

}  // namespace rtopk::cuda
