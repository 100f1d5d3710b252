// The two largest elements of lists of different lengths: rows of a padded matrix, and segments of a flat array.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

#include <rtopk/rtopk.hpp>

namespace {

constexpr std::int64_t kLists = 3;
constexpr std::int64_t kLongest = 4;
constexpr std::int64_t kSelected = 2;

struct Selected {
  std::vector<float> values = std::vector<float>(kLists * kSelected);
  std::vector<std::int64_t> indices = std::vector<std::int64_t>(kLists * kSelected);
};

bool select(const rtopk::Problem& problem, const std::vector<float>& input, const rtopk::RowArrays& arrays,
            Selected& selected) {
  rtopk::Plan plan;
  rtopk::Status status = rtopk::make_plan(problem, plan);
  if (status.ok()) {
    std::vector<std::byte> workspace(plan.workspace_bytes);
    const rtopk::Output output{.values = selected.values.data(), .indices = selected.indices.data()};
    status = rtopk::run(plan, input.data(), output, {workspace.data(), workspace.size()}, {}, arrays);
  }
  if (!status.ok()) std::fprintf(stderr, "rtopk: %s\n", status.text());
  return status.ok();
}

void print(const char* title, const Selected& selected) {
  std::printf("%s\n", title);
  for (std::size_t i = 0; i < selected.values.size(); ++i) {
    std::printf("  list %d: %g at %d\n", static_cast<int>(i / kSelected), static_cast<double>(selected.values[i]),
                static_cast<int>(selected.indices[i]));
  }
}

}  // namespace

int main() {
  // What lies behind the end of a row is never selected, not even where it is the largest.
  constexpr float x = 100;
  const std::vector<float> padded = {3, 1, 4, 1,  //
                                     5, x, x, x,  //
                                     9, 2, 6, x};
  const std::vector<std::int32_t> lengths = {4, 1, 3};
  rtopk::Problem problem{.rows = kLists, .cols = kLongest, .k = kSelected, .order = rtopk::Order::by_value};
  problem.ragged.lengths = rtopk::ArrayType::i32;
  Selected of_rows;
  if (!select(problem, padded, {.lengths = lengths.data()}, of_rows)) return 1;
  print("rows of a padded matrix, indices in the row:", of_rows);

  // The same lists one behind the other. `cols` is the length of the longest, and indices are places in the flat array.
  const std::vector<float> flat = {3, 1, 4, 1, 5, 9, 2, 6};
  const std::vector<std::int64_t> offsets = {0, 4, 5, 8};
  problem.ragged = {.offsets = rtopk::ArrayType::i64, .elements = static_cast<std::int64_t>(flat.size())};
  Selected of_segments;
  if (!select(problem, flat, {.offsets = offsets.data()}, of_segments)) return 1;
  print("segments of a flat array, places in it:", of_segments);

  // A list with fewer than two elements ends with index -1 and the value that loses against every other.
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  const bool right = of_rows.values == std::vector<float>{4, 3, 5, nothing, 9, 6} &&
                     of_rows.indices == std::vector<std::int64_t>{2, 0, 0, -1, 0, 2} &&
                     of_segments.values == of_rows.values &&
                     of_segments.indices == std::vector<std::int64_t>{2, 0, 4, -1, 5, 7};
  return right ? 0 : 1;
}
