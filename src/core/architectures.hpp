// Which GPUs can run code that was compiled for others.
#pragma once

#include <string_view>

namespace rtopk::core {

/// Whether a build for these architectures (as in CMAKE_CUDA_ARCHITECTURES, separated by spaces) runs on a GPU of this
/// compute capability (90 for 9.0). Machine code runs on the same major version from its own minor version on; PTX,
/// which all have but those that end with -real, on every later one. Code for one GPU alone (90a) runs there alone, and
/// code for a family of them (100f) as machine code does. A name that is none of these, such as "native", says nothing:
/// then every GPU is tried.
constexpr bool has_code_for(std::string_view architectures, int capability) noexcept {
  bool any = false;
  while (!architectures.empty()) {
    const std::size_t end = architectures.find(' ');
    const std::string_view name = architectures.substr(0, end);
    architectures.remove_prefix(end == std::string_view::npos ? architectures.size() : end + 1);
    if (name.empty()) continue;
    any = true;
    int number = 0;
    std::size_t digits = 0;
    for (; digits < name.size() && name[digits] >= '0' && name[digits] <= '9'; ++digits) {
      number = 10 * number + (name[digits] - '0');
    }
    if (digits == 0) return true;
    const std::string_view rest = name.substr(digits);
    const bool alone = rest.substr(0, 1) == "a";
    const bool family = rest.substr(0, 1) == "f";
    const std::string_view kind = alone || family ? rest.substr(1) : rest;
    if (capability == number) return true;
    if (alone) continue;
    if (kind != "-virtual" && capability / 10 == number / 10 && capability > number) return true;
    if (!family && kind != "-real" && capability > number) return true;
  }
  return !any;
}

}  // namespace rtopk::core
