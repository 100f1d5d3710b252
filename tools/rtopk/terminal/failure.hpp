// The error that ends the program: one line on stderr, exit code 2.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <rtopk/types.hpp>

namespace rtopk::tool {

inline constexpr int exit_broken_contract = 1;
inline constexpr int exit_bad_input = 2;

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws a Failure with the status's text unless it is ok.
inline void require(const Status& status) {
  if (!status.ok()) throw Failure(status.text());
}

}  // namespace rtopk::tool
