// Runs a selection on a Runner and compares every byte it wrote, and those it must not write, with the oracle. Nothing
// here needs GoogleTest: the fuzzer uses it as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <rtopk/select.hpp>

#include "matrix.hpp"
#include "oracle.hpp"
#include "runner.hpp"

namespace rtopk_test {

/// Where the memory of a call lies, and who runs it.
struct Layout {
  std::int64_t padding = 0;                ///< Elements between the end of a row (column, group) and the next one.
  std::int64_t element_gap = 0;            ///< Elements between one element of a row and the next.
  bool columns = false;                    ///< The rows are the columns of a matrix: element_gap does not matter.
  std::int64_t group_rows = 0;             ///< Rows of a group; 0: no groups.
  std::size_t input_misalignment = 0;      ///< Elements past a multiple of 64 bytes.
  std::size_t output_misalignment = 0;     ///< The same for every output.
  std::size_t workspace_misalignment = 1;  ///< Bytes.
  std::int32_t threads = 1;
  const rtopk::Executor* executor = nullptr;
};

/// Sets the strides of a problem as `layout` says; those of a plain layout are what the problem says.
void place(rtopk::Problem& problem, const Layout& layout);

/// The same problem for rows without gaps.
rtopk::Problem tight(const rtopk::Problem& problem);

/// The elements from the first to behind the last one that a problem with strides reads.
std::int64_t input_elements(const rtopk::Problem& problem);

/// The rows that a problem with strides finds in `memory`, a single row of input_elements().
Matrix rows_in(const Matrix& memory, const rtopk::Problem& problem);

/// All that a call writes, as bytes; empty where the problem does not ask for it.
struct Result {
  std::vector<std::byte> values;
  std::vector<std::byte> indices;
  std::vector<std::byte> dense;
  std::vector<std::byte> mask;
  std::vector<std::int32_t> passes;
};

/// What must be written if `selections` is what is selected.
Result render(const rtopk::Problem& problem, const Matrix& matrix, const std::vector<RowSelection>& selections);

/// The first difference, by row and reason; empty if there is none.
std::string compare(const rtopk::Problem& problem, const std::vector<RowSelection>& selections, const Result& expected,
                    const Result& actual, bool unsorted_is_ascending);

/// Runs on one runner and compares. Empty, or what is wrong together with all that is needed to repeat it.
std::string check(const Runner& runner, const rtopk::Problem& problem, const Matrix& matrix,
                  const std::vector<RowSelection>& selections, const Layout& layout);

/// Asks the oracle and checks every runner. Empty, or the first thing that is wrong.
std::string check_everywhere(const rtopk::Problem& problem, const Matrix& matrix, const Layout& layout = {});

std::string describe(const rtopk::Problem& problem);

/// The problem of selecting k of every row of the matrix; everything else as by default.
rtopk::Problem problem_for(const Matrix& matrix, std::int64_t k);

}  // namespace rtopk_test
