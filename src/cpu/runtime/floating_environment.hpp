// Makes results independent of the caller's rounding mode and of flush-to-zero, which frameworks enable per thread.
#pragma once

#include <cfenv>

namespace rtopk::cpu {

/// Sets the default floating-point environment (round to nearest, keep subnormals) during its lifetime.
class DefaultFloatingEnvironment {
 public:
  DefaultFloatingEnvironment() noexcept {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatingEnvironment() { std::fesetenv(&saved_); }
  DefaultFloatingEnvironment(const DefaultFloatingEnvironment&) = delete;
  DefaultFloatingEnvironment& operator=(const DefaultFloatingEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace rtopk::cpu
