// The layout of --help: two columns, wrapped descriptions, footers as they are written.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "terminal/words.hpp"

namespace rtopk::tool {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    constexpr std::size_t left = 32;
    constexpr std::size_t right = 66;
    std::string first = "  " + make_option_name(option, is_positional);
    if (!is_positional && option->get_type_size() != 0) first += ' ' + option->get_type_name();
    std::string text = first.size() < left ? fmt::format("{:<{}}", first, left) : first + '\n' + std::string(left, ' ');
    std::size_t used = 0;
    const std::string description = option->get_description();
    for (const std::string_view word : words_of(description)) {
      if (used != 0 && used + 1 + word.size() > right) {
        text += '\n' + std::string(left, ' ');
        used = 0;
      }
      if (used != 0) text += ' ';
      text += word;
      used += (used == 0 ? 0 : 1) + word.size();
    }
    return text + '\n';
  }

  std::string make_footer(const CLI::App* app) const override {
    const std::string footer = app->get_footer();
    return footer.empty() ? footer : footer + '\n';
  }
};

}  // namespace rtopk::tool
