// Runs a selection on a Runner and compares all output bytes, and the memory around them, with the oracle. Does not
// need GoogleTest, because the fuzzer uses it as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <rtopk/select.hpp>

#include "matrix.hpp"
#include "oracle.hpp"
#include "runner.hpp"

namespace rtopk_test {

/// The memory layout of a call, and the threads that run it.
struct Layout {
  std::int64_t padding = 0;                ///< Elements between the end of a row (column, group) and the next one.
  std::int64_t element_gap = 0;            ///< Elements between neighbouring elements of a row.
  bool columns = false;                    ///< The rows are the columns of a matrix; element_gap is ignored.
  std::int64_t group_rows = 0;             ///< Rows of a group; 0: no groups.
  std::size_t input_misalignment = 0;      ///< Elements past a multiple of 64 bytes.
  std::size_t output_misalignment = 0;     ///< The same for every output.
  std::size_t workspace_misalignment = 1;  ///< In bytes.
  std::byte workspace_fill{0x5a};          ///< What the workspace has before the call.
  std::int32_t threads = 1;
  const rtopk::Executor* executor = nullptr;
};

/// Sets the strides of a problem for `layout`. A default layout leaves them unchanged. General rows have fewer layouts:
/// what the problem does not allow of `layout` is left out.
void place(rtopk::Problem& problem, const Layout& layout);

/// The same problem for contiguous rows.
rtopk::Problem tight(const rtopk::Problem& problem);

/// Number of elements from the first to the last one that a problem with strides reads.
std::int64_t input_elements(const rtopk::Problem& problem);

/// The rows that a problem with strides reads from `memory`, a single row of input_elements().
Matrix rows_in(const Matrix& memory, const rtopk::Problem& problem);

/// All output of a call as bytes. Outputs that the problem does not request are empty.
struct Result {
  std::vector<std::byte> values;
  std::vector<std::byte> indices;
  std::vector<std::byte> dense;
  std::vector<std::byte> mask;
  std::vector<std::int32_t> passes;
  std::vector<std::byte> thresholds;
};

/// The expected output if `selections` are selected. With ragged.offsets the matrix is the flat input.
Result render(const rtopk::Problem& problem, const Matrix& matrix, const std::vector<RowSelection>& selections,
              const RowNumbers& numbers = {});

/// The first difference, with row and reason; empty if there is none.
std::string compare(const rtopk::Problem& problem, const std::vector<RowSelection>& selections, const Result& expected,
                    const Result& actual, bool unsorted_is_ascending);

/// Runs on one runner and compares. Returns an empty text, or the error with everything needed to repeat it.
/// What the matrix has outside of ragged rows is replaced by elements that would win.
std::string check(const Runner& runner, const rtopk::Problem& problem, const Matrix& matrix,
                  const std::vector<RowSelection>& selections, const Layout& layout, const RowNumbers& numbers = {});

/// Asks the oracle and checks every runner. Returns an empty text or the first error.
std::string check_everywhere(const rtopk::Problem& problem, const Matrix& matrix, const Layout& layout = {},
                             const RowNumbers& numbers = {});

/// The data of one of several calls with the same problem.
struct CallData {
  Matrix matrix;
  RowNumbers numbers;
};

/// The same for several calls, one after the other, with the same plan and the workspace as the call before left it.
std::string check_everywhere(const rtopk::Problem& problem, const std::vector<CallData>& calls, const Layout& layout);

/// Checks of general rows in this process: how many a runner has run, and how many its family does not take.
struct Coverage {
  std::int64_t run = 0;
  std::int64_t left_out = 0;
};
const std::map<std::string, Coverage>& general_coverage();

std::string describe(const rtopk::Problem& problem);

/// The problem that selects k elements of every row of the matrix, with default options.
rtopk::Problem problem_for(const Matrix& matrix, std::int64_t k);

}  // namespace rtopk_test
