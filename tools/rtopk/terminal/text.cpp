#include "terminal/text.hpp"

#include <array>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rtopk::tool {
namespace {

/// The length in bytes and the code point of the UTF-8 character at the start of `text`; length 0 if it is malformed.
std::size_t decode(std::string_view text, char32_t& character) {
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte_at(0);
  const std::size_t size = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (size == 0 || size > text.size()) return 0;
  constexpr std::array<unsigned char, 5> payload = {0, 0x7f, 0x1f, 0x0f, 0x07};
  constexpr std::array<char32_t, 5> smallest = {0, 0, 0x80, 0x800, 0x10000};
  character = first & payload[size];
  for (std::size_t i = 1; i < size; ++i) {
    if (byte_at(i) >> 6 != 2) return 0;
    character = character << 6 | (byte_at(i) & 0x3fu);
  }
  const bool surrogate = character >= 0xd800 && character <= 0xdfff;
  return character < smallest[size] || character > 0x10ffff || surrogate ? 0 : size;
}

/// Whether a terminal may interpret the character instead of showing it: control characters, line and paragraph
/// separators, and characters that change the direction of the text.
bool is_an_order(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
         c == 0x200e || c == 0x200f || c == 0x061c || c == 0xfeff;
}

}  // namespace

PrintableCharacter::PrintableCharacter(std::string_view& text) noexcept {
  char32_t character = 0;
  const std::size_t size = decode(text, character);
  const bool plain = size > 0 && !is_an_order(character);
  const std::size_t taken = size > 0 ? size : 1;
  for (const char c : text.substr(0, taken)) {
    if (plain) {
      bytes_[size_++] = c;
      continue;
    }
    constexpr std::string_view digits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    for (const char escaped : {'\\', 'x', digits[byte >> 4], digits[byte & 15]}) bytes_[size_++] = escaped;
  }
  text.remove_prefix(taken);
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) result += PrintableCharacter(text).view();
  return result;
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 6> units = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < units.size(); ++unit) bytes /= 1000.0;
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds >= 100.0) return fmt::format("{:.0f} s", seconds);
  if (seconds >= 1.0) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} us", seconds * 1e6);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

bool parse_extents(std::string_view text, std::size_t parts, std::vector<std::int64_t>& extents) {
  extents.clear();
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || value < 0) return false;
    extents.push_back(value);
    if (stop == end) return extents.size() == parts;
    if (*stop != 'x' && *stop != 'X') return false;
    at = stop + 1;
  }
}

}  // namespace rtopk::tool
