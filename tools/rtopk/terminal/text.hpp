// How numbers, shapes and foreign texts are written for people.
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

/// Takes one character off `text`, which is not empty, and returns it as a terminal may see it: as it is, or where it
/// would move the cursor, change colours or turn the direction of writing (and where it is not UTF-8) as \xHH for each of
/// its bytes. Allocates nothing, for messages about memory.
class PrintableCharacter {
 public:
  explicit PrintableCharacter(std::string_view& text) noexcept;
  [[nodiscard]] std::string_view view() const noexcept { return {bytes_.data(), size_}; }

 private:
  std::array<char, 16> bytes_{};
  std::size_t size_ = 0;
};

/// A whole text of such characters: one line, whatever is in a file's name.
[[nodiscard]] std::string printable(std::string_view text);

/// Reads "4096x768" or "4096x768x32": exactly `parts` whole numbers with an x between. False if it is not that.
[[nodiscard]] bool parse_extents(std::string_view text, std::size_t parts, std::vector<std::int64_t>& extents);

}  // namespace rtopk::tool
