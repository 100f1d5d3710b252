// One line on stderr that is redrawn in place; silent unless stderr is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rtopk::tool {

class TerminalLine {
 public:
  explicit TerminalLine(bool wanted);
  ~TerminalLine() { clear(); }
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  /// Whether to draw again: at most ten times a second.
  [[nodiscard]] bool due() const noexcept;
  void show(std::string text);
  void clear();

 private:
  bool enabled_ = false;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

/// Progress over rows, with the rate since the start.
class RowProgress {
 public:
  RowProgress(std::string label, std::int64_t rows, double bytes_per_row, bool wanted);
  void update(std::int64_t rows_done);
  void clear() { line_.clear(); }

 private:
  TerminalLine line_;
  std::string label_;
  std::int64_t rows_ = 0;
  double bytes_per_row_ = 0.0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace rtopk::tool
