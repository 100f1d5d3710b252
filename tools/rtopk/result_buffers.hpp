// Memory for the results of some rows, as run() wants it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rtopk/rtopk.hpp>

#include "contract.hpp"
#include "saved_selection.hpp"

namespace rtopk::tool {

class ResultBuffers {
 public:
  /// Room for every array that `problem` asks for, for `rows` rows.
  ResultBuffers(const Problem& problem, std::int64_t rows);

  [[nodiscard]] const Output& output() const noexcept { return output_; }
  [[nodiscard]] Results results() const noexcept {
    return {output_.values, output_.indices, output_.dense, output_.mask, output_.passes};
  }
  /// The first rows of one array, numbered as arrays_of() lists them.
  [[nodiscard]] std::span<const std::byte> part(std::size_t array, std::int64_t rows) const;

 private:
  std::vector<ArraySpec> specs_;
  std::vector<std::vector<std::byte>> memory_;
  Output output_{};
};

}  // namespace rtopk::tool
