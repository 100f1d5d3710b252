// What the tests of invalid problems and of invalid calls share.
#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include <rtopk/rtopk.hpp>

namespace rtopk_test {

inline rtopk::Problem good_problem() {
  rtopk::Problem problem;
  problem.rows = 4;
  problem.cols = 40;
  problem.k = 8;
  problem.passes = true;
  return problem;
}

/// An enumerator that there is not.
template <typename Enum>
Enum far_beyond() {
  return static_cast<Enum>(200);
}

/// True if the text has `argument`, a regular expression, as a whole word: "k" is not in "rank".
inline bool names(const rtopk::Status& status, const std::string& argument) {
  const std::regex word("(^|[^A-Za-z_])" + argument + "([^A-Za-z_]|$)");
  return std::regex_search(status.text(), word);
}

inline void expect_refusal(const rtopk::Status& status, rtopk::StatusCode code, const std::string& argument) {
  EXPECT_EQ(status.code(), code) << status.text();
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(names(status, argument)) << '"' << status.text() << "\" does not name " << argument;
  EXPECT_EQ(std::string(status.text()).find('\n'), std::string::npos) << "more than one line";
}

}  // namespace rtopk_test
