// How numbers and shapes are written for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rtopk::tool {

[[nodiscard]] std::string bytes_text(double bytes);      ///< "1.50 GB" (decimal, as disks and GB/s are counted)
[[nodiscard]] std::string seconds_text(double seconds);  ///< "12.3 ms"
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);  ///< "(2, 3)"

/// Reads "4096x768" or "4096x768x32": exactly `parts` whole numbers with an x between. False if it is not that.
[[nodiscard]] bool parse_extents(std::string_view text, std::size_t parts, std::vector<std::int64_t>& extents);

}  // namespace rtopk::tool
