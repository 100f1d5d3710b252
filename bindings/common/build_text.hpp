// How this rtopk was built, for python/rtopk/_info.py.
#pragma once

#include <string>

#include <rtopk/rtopk.hpp>

namespace rtopk::bindings {

/// One name=value in each line.
inline std::string build_text() {
  const BuildInfo info = build_info();
  return std::string("version=") + version() + "\ncuda=" + (info.cuda ? "1" : "0") +
         "\ncuda_architectures=" + info.cuda_architectures + "\nhighway=" + (info.highway ? "1" : "0") +
         "\ncpu_target=" + info.cpu_target + "\ncpu_targets=" + info.cpu_targets + "\n";
}

}  // namespace rtopk::bindings
