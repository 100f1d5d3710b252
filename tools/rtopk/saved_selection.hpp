// What a selection looks like in a .npz file: which arrays, and `meta`, a JSON text that says how it was made.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rtopk/select.hpp>

#include "contract.hpp"
#include "npz_reader.hpp"
#include "random_matrix.hpp"

namespace rtopk::tool {

inline constexpr const char* meta_name = "meta";

enum class Part : std::uint8_t { values, indices, dense, mask, passes };

/// One array of the result.
struct ArraySpec {
  Part part = Part::values;
  std::string name;
  std::string descr;
  std::size_t item_bytes = 0;
  std::int64_t items_per_row = 0;
  bool one_per_row = false;  ///< Its shape has no last extent.

  [[nodiscard]] std::vector<std::int64_t> shape(const std::vector<std::int64_t>& leading) const;
};

/// The arrays that `problem` asks for, in the order of the file.
[[nodiscard]] std::vector<ArraySpec> arrays_of(const Problem& problem);

/// Where the input of a saved selection came from.
struct Provenance {
  std::string file;  ///< The name it was given by; empty if it was made here.
  std::optional<RandomInput> random;
};

[[nodiscard]] std::string meta_text(const Problem& problem, const Provenance& provenance);

struct Meta {
  Problem problem;
  Provenance provenance;
};

/// The arrays that a saved selection may have; nothing else of a file is looked at. Throws NpyError.
[[nodiscard]] NpzArrays parse_saved(std::span<const std::byte> file);

/// Reads `meta`; nothing if the file has none. Throws Failure if it has one that makes no sense.
[[nodiscard]] std::optional<Meta> read_meta(const NpzArrays& arrays);

/// For a file that says nothing itself: form, k and types as its arrays show them.
[[nodiscard]] Problem guess_problem(const NpzArrays& arrays, std::int64_t rows, std::int64_t cols, DType dtype);

/// Finds every array that `problem` asks for, of the type and shape that it must have, and checks its sum: reads as much
/// as `problem` asks for and no more. Throws Failure.
[[nodiscard]] Results find_results(const NpzArrays& arrays, const Problem& problem,
                                   const std::vector<std::int64_t>& leading_shape);

}  // namespace rtopk::tool
