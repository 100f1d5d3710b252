// Texts split into lines and words. Not by streams, which treat a failed allocation as the end of the text.
#pragma once

#include <string_view>
#include <vector>

namespace rtopk::tool {

/// The lines of a text. A line end at the end of the text does not begin another line.
inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

/// The words of a text, separated by spaces, tabs and line ends.
inline std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view blanks = " \t\n";
  std::vector<std::string_view> words;
  for (std::size_t begin = text.find_first_not_of(blanks); begin != std::string_view::npos;) {
    const std::size_t end = text.find_first_of(blanks, begin);
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(blanks, end);
  }
  return words;
}

}  // namespace rtopk::tool
