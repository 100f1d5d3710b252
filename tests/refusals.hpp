// Checks the text of errors.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include <rtopk/types.hpp>

namespace rtopk_test {

/// Expects an error that names the argument, its value and what is accepted.
inline void expect_refused(const rtopk::Status& status, const std::string& argument) {
  const std::string text = status.text();
  EXPECT_FALSE(status.ok()) << argument;
  EXPECT_TRUE(text.starts_with(argument)) << "not about " << argument << ": " << text;
  EXPECT_NE(text.find("accepted"), std::string::npos) << text;
}

}  // namespace rtopk_test
