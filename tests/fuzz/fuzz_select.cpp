// Fuzzes selections. Bytes become a valid problem and a matrix, also with general rows and any content of their arrays:
// every runner must agree with the oracle. Bytes also become an arbitrary problem: the result must be a plan or an error,
// never a crash.
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "byte_reader.hpp"
#include "check.hpp"
#include "general_rows.hpp"

namespace rtopk_test {
namespace {

/// A problem that the contract allows.
rtopk::Problem valid_problem(ByteReader& bytes) {
  rtopk::Problem problem;
  problem.rows = bytes.between(0, 6);
  // Mostly short rows, which the fuzzer controls completely; some long enough for every family.
  problem.cols = bytes.take<std::uint8_t>() % 16 == 0 ? bytes.between(1, 9000) : bytes.between(1, 200);
  problem.k = bytes.between(1, problem.cols);
  problem.dtype = kDTypes[bytes.take<std::uint8_t>() % 5];
  problem.direction = static_cast<rtopk::Direction>(bytes.take<std::uint8_t>() % 2);
  problem.form = static_cast<rtopk::Form>(bytes.take<std::uint8_t>() % 4);
  problem.order = static_cast<rtopk::Order>(bytes.take<std::uint8_t>() % 3);
  const std::uint8_t flags = bytes.take<std::uint8_t>();
  problem.passes = (flags & 1u) != 0;
  problem.index_type = (flags & 2u) != 0 ? rtopk::IndexType::i32 : rtopk::IndexType::i64;
  problem.values = (flags & 12u) != 4u;
  problem.indices = (flags & 12u) != 8u;
  if (problem.form == rtopk::Form::cbsr) {
    problem.index_type = (flags & 2u) != 0 ? rtopk::IndexType::u16 : rtopk::selector_type(problem.cols);
  }
  const bool dense = problem.form == rtopk::Form::dense || problem.form == rtopk::Form::mask;
  if (dense && problem.order == rtopk::Order::by_value) problem.order = rtopk::Order::by_index;
  switch (bytes.take<std::uint8_t>() % 4) {
    case 1: problem.search = rtopk::Search::bisection; break;
    case 2:
      problem.max_iter = static_cast<std::int32_t>(bytes.between(1, 200));
      problem.rule = static_cast<rtopk::Rule>(bytes.take<std::uint8_t>() % 2);
      break;
    case 3: problem.epsilon = static_cast<double>(bytes.between(0, 65535)) / 65535.0; break;
    default: break;
  }
  return problem;
}

Layout any_layout(ByteReader& bytes) {
  Layout layout;
  layout.padding = bytes.take<std::uint8_t>() % 17;
  layout.input_misalignment = bytes.take<std::uint8_t>() % 16;
  layout.output_misalignment = bytes.take<std::uint8_t>() % 16;
  layout.workspace_misalignment = bytes.take<std::uint8_t>() % 64;
  const std::uint8_t more = bytes.take<std::uint8_t>();
  layout.threads = 1 + more % 3;
  layout.element_gap = more / 3 % 4 == 1 ? 1 : 0;
  layout.columns = more / 3 % 4 == 2;
  layout.group_rows = more / 12 % 4;
  return layout;
}

/// Repeats the remaining bytes, shifted by one element per row so that rows differ.
Matrix matrix_from(const rtopk::Problem& problem, std::span<const std::uint8_t> bytes) {
  Matrix matrix{problem.dtype, problem.rows, problem.cols, {}, "from the fuzzer's bytes"};
  const std::size_t size = rtopk::size_of(problem.dtype);
  const std::size_t row_bytes = static_cast<std::size_t>(problem.cols) * size;
  matrix.bytes.resize(static_cast<std::size_t>(input_elements(tight(problem))) * size);
  if (bytes.empty()) return matrix;
  for (std::size_t i = 0; i < matrix.bytes.size(); ++i) {
    matrix.bytes[i] = static_cast<std::byte>(bytes[(i + i / row_bytes * size) % bytes.size()]);
  }
  return matrix;
}

void expect_nothing(const std::string& wrong) {
  if (wrong.empty()) return;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}

void selects_as_the_oracle(ByteReader bytes) {
  const rtopk::Problem problem = valid_problem(bytes);
  const Layout layout = any_layout(bytes);
  expect_nothing(check_everywhere(problem, matrix_from(problem, bytes.rest()), layout));
}

/// Replaces numbers of an array by any bytes, so that the fuzzer controls them.
void take_numbers(ByteReader& bytes, rtopk::ArrayType type, std::vector<std::int64_t>& numbers) {
  for (std::int64_t& number : numbers) {
    if (bytes.rest().size() < 9 || bytes.take<std::uint8_t>() % 4 != 0) continue;
    number = type == rtopk::ArrayType::i32 ? bytes.take<std::int32_t>() : bytes.take<std::int64_t>();
  }
}

void selects_general_rows_as_the_oracle(ByteReader bytes) {
  rtopk::Problem problem = valid_problem(bytes);
  const Layout layout = any_layout(bytes);
  Random random(bytes.take<std::uint32_t>());
  RowNumbers numbers;
  generalise(problem, numbers, random);
  take_numbers(bytes, problem.ragged.lengths, numbers.lengths);
  take_numbers(bytes, problem.ragged.starts, numbers.starts);
  take_numbers(bytes, problem.ragged.offsets, numbers.offsets);
  take_numbers(bytes, problem.ragged.k, numbers.k);
  take_numbers(bytes, problem.index_map.table_of, numbers.table_of);
  take_numbers(bytes, problem.index_map.type, numbers.map);
  expect_nothing(check_everywhere(problem, matrix_from(problem, bytes.rest()), layout, numbers));
}

void survives_any_problem(ByteReader bytes) {
  rtopk::Problem problem;
  problem.rows = bytes.take<std::int64_t>();
  problem.cols = bytes.take<std::int64_t>();
  problem.k = bytes.take<std::int64_t>();
  problem.row_stride = bytes.take<std::int64_t>();
  problem.dtype = static_cast<rtopk::DType>(bytes.take<std::uint8_t>());
  problem.direction = static_cast<rtopk::Direction>(bytes.take<std::uint8_t>());
  problem.order = static_cast<rtopk::Order>(bytes.take<std::uint8_t>());
  problem.form = static_cast<rtopk::Form>(bytes.take<std::uint8_t>());
  problem.index_type = static_cast<rtopk::IndexType>(bytes.take<std::uint8_t>());
  problem.search = static_cast<rtopk::Search>(bytes.take<std::uint8_t>());
  problem.max_iter = bytes.take<std::int32_t>();
  problem.epsilon = bytes.take<double>();
  problem.device.kind = static_cast<rtopk::DeviceKind>(bytes.take<std::uint8_t>() % 3);
  rtopk::Traits traits;
  traits.threads = bytes.take<std::int32_t>();
  problem.element_stride = bytes.take<std::int64_t>();
  problem.group_rows = bytes.take<std::int64_t>();
  problem.group_stride = bytes.take<std::int64_t>();
  problem.rule = static_cast<rtopk::Rule>(bytes.take<std::uint8_t>());
  problem.magnitude = bytes.take<std::uint8_t>() % 2 != 0;
  problem.thresholds = bytes.take<std::uint8_t>() % 2 != 0;
  const auto array = [&bytes] { return static_cast<rtopk::ArrayType>(bytes.take<std::uint8_t>() % 8); };
  problem.ragged = {array(), array(), array(), array(), bytes.take<std::int64_t>()};
  problem.index_map.kind = static_cast<rtopk::IndexKind>(bytes.take<std::uint8_t>() % 8);
  problem.index_map.type = array();
  problem.index_map.stride = bytes.take<std::int64_t>();
  problem.index_map.pages = bytes.take<std::int64_t>();
  problem.index_map.page_size = bytes.take<std::int64_t>();
  problem.index_map.tables = bytes.take<std::int64_t>();
  problem.index_map.table_of = array();
  rtopk::Plan plan;
  const rtopk::Status status = rtopk::make_plan(problem, traits, plan);
  if (status.ok() != (status.text()[0] == '\0')) std::abort();  // an error has a text, a success has none
  static_cast<void>(rtopk::to_string(plan));
  // Without memory, run() must refuse any plan, unless there is nothing to do.
  if (rtopk::run(plan, nullptr, {}).ok() && problem.rows != 0) std::abort();
}

}  // namespace
}  // namespace rtopk_test

// libFuzzer suspects a leak after every input that starts a thread, and its search takes longer than the input. The
// library allocates nothing that could leak.
extern "C" int __lsan_is_turned_off() { return 1; }  // NOLINT(bugprone-reserved-identifier)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rtopk_test::ByteReader bytes({data, size});
  const auto first = bytes.take<std::uint8_t>();
  if (first == 0xff) {
    rtopk_test::survives_any_problem(bytes);
  } else if (first >= 0xc0) {
    rtopk_test::selects_general_rows_as_the_oracle(bytes);
  } else {
    rtopk_test::selects_as_the_oracle(bytes);
  }
  return 0;
}
