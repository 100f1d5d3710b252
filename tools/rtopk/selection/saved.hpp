// A selection in a .npz file: its arrays, and `meta`, a JSON text that records how it was made.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rtopk/select.hpp>

#include "files/npz_reader.hpp"
#include "matrix/random.hpp"
#include "selection/contract.hpp"

namespace rtopk::tool {

inline constexpr const char* meta_name = "meta";

enum class Part : std::uint8_t { values, indices, dense, mask, passes, thresholds };

/// One array of the result.
struct ArraySpec {
  Part part = Part::values;
  std::string name;
  std::string descr;
  std::size_t item_bytes = 0;
  std::int64_t items_per_row = 0;
  bool one_per_row = false;  ///< One number per row: its shape has no last extent.

  [[nodiscard]] std::vector<std::int64_t> shape(const std::vector<std::int64_t>& leading) const;
};

/// The arrays that `problem` asks for, in the order of the file.
[[nodiscard]] std::vector<ArraySpec> arrays_of(const Problem& problem);

/// Where the input of a saved selection came from.
struct Provenance {
  std::string file;  ///< Its name as given; empty for random input.
  std::optional<RandomInput> random;
};

/// Of general rows it has what they are, not their arrays.
[[nodiscard]] std::string meta_text(const Problem& problem, const Provenance& provenance);

struct Meta {
  Problem problem;
  Provenance provenance;
};

/// Reads the arrays that a saved selection may have and ignores all others. Throws NpyError.
[[nodiscard]] NpzArrays parse_saved(std::span<const std::byte> file);

/// Reads `meta`; empty if the file has none. Throws Failure if it is malformed.
[[nodiscard]] std::optional<Meta> read_meta(const NpzArrays& arrays);

/// For a file without `meta`: form, k and types follow from its arrays.
[[nodiscard]] Problem guess_problem(const NpzArrays& arrays, std::int64_t rows, std::int64_t cols, DType dtype);

/// Finds every array that `problem` asks for and checks its type, shape and checksum. Reads no other array. Throws
/// Failure.
[[nodiscard]] Results find_results(const NpzArrays& arrays, const Problem& problem,
                                   const std::vector<std::int64_t>& leading_shape);

}  // namespace rtopk::tool
