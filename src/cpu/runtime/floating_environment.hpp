// Results must not depend on the caller's rounding mode or on flush-to-zero, which frameworks switch on per thread.
#pragma once

#include <cfenv>

namespace rtopk::cpu {

/// Sets the default floating-point environment (to nearest, subnormals kept) for its lifetime.
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
