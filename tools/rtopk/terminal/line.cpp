#include "terminal/line.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "terminal/text.hpp"

namespace rtopk::tool {
namespace {

std::size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

TerminalLine::TerminalLine(bool wanted) : enabled_(wanted && ::isatty(STDERR_FILENO) != 0) {}

bool TerminalLine::due() const noexcept {
  return enabled_ && (!drawn_ || std::chrono::steady_clock::now() - last_ >= std::chrono::milliseconds(100));
}

void TerminalLine::show(std::string text) {
  if (!enabled_) return;
  text.resize(std::min(text.size(), terminal_columns() - 1));  // a line that wraps could not be redrawn
  fmt::print(stderr, "\r\x1b[K{}", text);
  std::fflush(stderr);
  drawn_ = true;
  last_ = std::chrono::steady_clock::now();
}

void TerminalLine::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

RowProgress::RowProgress(std::string label, std::int64_t rows, double bytes_per_row, bool wanted)
    : line_(wanted), label_(std::move(label)), rows_(rows), bytes_per_row_(bytes_per_row) {}

void RowProgress::update(std::int64_t rows_done) {
  if (!line_.due()) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const double fraction = rows_ > 0 ? static_cast<double>(rows_done) / static_cast<double>(rows_) : 1.0;
  const double rate = static_cast<double>(rows_done) * bytes_per_row_ / std::max(elapsed.count(), 1e-9);
  const double left = fraction > 0.0 ? elapsed.count() * (1.0 - fraction) / fraction : 0.0;
  constexpr int bar = 20;
  const auto filled = static_cast<std::size_t>(fraction * bar);
  line_.show(fmt::format("{} [{:-<20}] {:3.0f}%  {}/{} rows  {:.2f} GB/s  {} left", label_, std::string(filled, '#'),
                         fraction * 100.0, rows_done, rows_, rate * 1e-9, seconds_text(left)));
}

}  // namespace rtopk::tool
