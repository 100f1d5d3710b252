// Numbers, shapes and texts of unknown origin, formatted for people.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rtopk::tool {

[[nodiscard]] std::string bytes_text(double bytes);      ///< "1.50 GB" (decimal, as disks and GB/s are counted)
[[nodiscard]] std::string seconds_text(double seconds);  ///< "12.3 ms"
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);  ///< "(2, 3)"

/// Removes the first character of `text`, which must not be empty, and returns it in a form that is safe on a terminal:
/// control characters, characters that change the direction of writing and invalid UTF-8 become \xHH for each byte.
/// Allocates nothing, so that it can be used when memory has run out.
class PrintableCharacter {
 public:
  explicit PrintableCharacter(std::string_view& text) noexcept;
  [[nodiscard]] std::string_view view() const noexcept { return {bytes_.data(), size_}; }

 private:
  std::array<char, 16> bytes_{};
  std::size_t size_ = 0;
};

/// The same for a whole text. The result is one line.
[[nodiscard]] std::string printable(std::string_view text);

/// Parses "4096x768" or "4096x768x32": exactly `parts` whole numbers, separated by x. False if `text` is anything else.
[[nodiscard]] bool parse_extents(std::string_view text, std::size_t parts, std::vector<std::int64_t>& extents);

}  // namespace rtopk::tool
