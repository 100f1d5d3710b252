// Shared by the files of the conformance suite.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "check.hpp"

namespace rtopk {
/// For GoogleTest, which would print the enumerator as a byte.
inline void PrintTo(DType dtype, std::ostream* out) { *out << name(dtype); }
}  // namespace rtopk

namespace rtopk_test {

/// One kind of search: the paper's or ours, with or without early stopping.
struct Limits {
  rtopk::Search search = rtopk::Search::fast;
  std::int32_t max_iter = 0;
  rtopk::Rule rule = rtopk::Rule::threshold_first;
  double epsilon = 0.0;

  void apply(rtopk::Problem& problem) const {
    problem.search = search;
    problem.max_iter = max_iter;
    problem.rule = rule;
    problem.epsilon = epsilon;
  }
};

inline const std::vector<Limits> kLimits = {
    {},
    {.search = rtopk::Search::bisection},
    {.max_iter = 1},
    {.max_iter = 2, .rule = rtopk::Rule::printed},
    {.max_iter = 5},
    {.max_iter = 30},
    {.max_iter = 10000, .rule = rtopk::Rule::printed},
    {.search = rtopk::Search::bisection, .max_iter = 3, .rule = rtopk::Rule::printed},
    {.search = rtopk::Search::bisection, .max_iter = 4},
    {.epsilon = 1e-4},
    {.search = rtopk::Search::bisection, .epsilon = 0.05},
    {.epsilon = 1.0},
};

inline constexpr rtopk::Direction kDirections[] = {rtopk::Direction::largest, rtopk::Direction::smallest};
inline constexpr rtopk::Order kOrders[] = {rtopk::Order::unsorted, rtopk::Order::by_value, rtopk::Order::by_index};

/// Options that change what is written but not what is selected.
struct Shape {
  rtopk::Form form = rtopk::Form::pairs;
  rtopk::IndexType index_type = rtopk::IndexType::i64;
  bool values = true;
  bool indices = true;
  rtopk::Order order = rtopk::Order::unsorted;

  void apply(rtopk::Problem& problem) const {
    problem.form = form;
    problem.index_type = index_type;
    problem.values = values;
    problem.indices = indices;
    problem.order = order;
  }
};

/// All valid shapes for rows of `cols` elements.
std::vector<Shape> shapes_for(std::int64_t cols);

/// Random strides, alignment and number of threads, common and unusual ones.
Layout random_layout(Random& random);

/// A random k in [1, cols]. Half of the time it is one of the ends or of the common sizes.
std::int64_t random_k(std::int64_t cols, Random& random);

/// Tests over element types: one test per type, so that they can run in parallel.
class DTypeTest : public testing::TestWithParam<rtopk::DType> {
 protected:
  /// Checks on every runner and records failures. Returns false after so many failures that more add no information.
  bool conforms(const rtopk::Problem& problem, const Matrix& matrix, const Layout& layout = {},
                const RowNumbers& numbers = {}) {
    return nothing_wrong(check_everywhere(problem, matrix, layout, numbers));
  }
  /// The same for several calls on one workspace.
  bool conforms(const rtopk::Problem& problem, const std::vector<CallData>& calls, const Layout& layout) {
    return nothing_wrong(check_everywhere(problem, calls, layout));
  }

  [[nodiscard]] Random random_for(std::uint64_t purpose) const {
    return Random(seed() * 1000003u + purpose * 101u + static_cast<std::uint64_t>(GetParam()));
  }

 private:
  bool nothing_wrong(const std::string& wrong) {
    if (wrong.empty()) return true;
    ADD_FAILURE() << wrong;
    return ++failures_ < 3;
  }

  int failures_ = 0;
};

inline std::string dtype_name(const testing::TestParamInfo<rtopk::DType>& info) { return rtopk::name(info.param); }

}  // namespace rtopk_test
