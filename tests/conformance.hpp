// What the files of the conformance suite share.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "check.hpp"

namespace rtopk {
/// For GoogleTest, which would print a byte.
inline void PrintTo(DType dtype, std::ostream* out) { *out << name(dtype); }
}  // namespace rtopk

namespace rtopk_test {

/// One way of searching: the paper's, ours, stopped early or not.
struct Limits {
  rtopk::Search search = rtopk::Search::fast;
  std::int32_t max_iter = 0;
  double epsilon = 0.0;

  void apply(rtopk::Problem& problem) const {
    problem.search = search;
    problem.max_iter = max_iter;
    problem.epsilon = epsilon;
  }
};

inline const std::vector<Limits> kLimits = {
    {},
    {.search = rtopk::Search::bisection},
    {.max_iter = 1},
    {.max_iter = 2},
    {.max_iter = 5},
    {.max_iter = 30},
    {.max_iter = 10000},
    {.epsilon = 1e-4},
    {.epsilon = 0.05},
    {.epsilon = 1.0},
};

inline constexpr rtopk::Direction kDirections[] = {rtopk::Direction::largest, rtopk::Direction::smallest};
inline constexpr rtopk::Order kOrders[] = {rtopk::Order::unsorted, rtopk::Order::by_value, rtopk::Order::by_index};

/// A form of the result that the contract allows: everything that changes what is written but not what is selected.
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

/// All of them for rows of `cols` elements.
std::vector<Shape> shapes_for(std::int64_t cols);

/// Strides, an alignment and a number of threads, from the ordinary to the odd.
Layout random_layout(Random& random);

/// k from 1 to cols, the ends and the ordinary sizes as often as all others together.
std::int64_t random_k(std::int64_t cols, Random& random);

/// Tests over element types: one test per type, so that they can run side by side.
class DTypeTest : public testing::TestWithParam<rtopk::DType> {
 protected:
  /// Checks on every runner; records a failure. False once so much has failed that more would tell nothing new.
  bool conforms(const rtopk::Problem& problem, const Matrix& matrix, const Layout& layout = {}) {
    const std::string wrong = check_everywhere(problem, matrix, layout);
    if (wrong.empty()) return true;
    ADD_FAILURE() << wrong;
    return ++failures_ < 3;
  }

  [[nodiscard]] Random random_for(std::uint64_t purpose) const {
    return Random(seed() * 1000003u + purpose * 101u + static_cast<std::uint64_t>(GetParam()));
  }

 private:
  int failures_ = 0;
};

inline std::string dtype_name(const testing::TestParamInfo<rtopk::DType>& info) { return rtopk::name(info.param); }

}  // namespace rtopk_test
