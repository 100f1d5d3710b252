// Memory for the results of some rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rtopk/rtopk.hpp>

#include "selection/contract.hpp"
#include "selection/saved.hpp"
#include "system/owned_bytes.hpp"

namespace rtopk::tool {

class ResultBuffers {
 public:
  /// Allocates every array that `problem` asks for, for `rows` rows.
  ResultBuffers(const Problem& problem, std::int64_t rows, Allocate allocate = heap_bytes);

  [[nodiscard]] const Output& output() const noexcept { return output_; }
  [[nodiscard]] Results results() const noexcept {
    return {output_.values, output_.indices, output_.dense, output_.mask, output_.passes};
  }
  /// The number of arrays, which are in the order of arrays_of().
  [[nodiscard]] std::size_t arrays() const noexcept { return specs_.size(); }
  /// The first rows of one array.
  [[nodiscard]] std::span<std::byte> part(std::size_t array, std::int64_t rows) const { return part(array, 0, rows); }
  /// Rows [first, first + rows) of one array.
  [[nodiscard]] std::span<std::byte> part(std::size_t array, std::int64_t first, std::int64_t rows) const;

 private:
  std::vector<ArraySpec> specs_;
  std::vector<OwnedBytes> memory_;
  Output output_{};
};

/// Bytes of the results of one row.
[[nodiscard]] std::size_t result_bytes_per_row(const Problem& problem);

}  // namespace rtopk::tool
