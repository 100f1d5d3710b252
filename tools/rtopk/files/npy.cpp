#include "files/npy.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "rounding.hpp"

namespace rtopk::tool {
namespace {

constexpr std::array<unsigned char, 6> magic = {0x93, 'N', 'U', 'M', 'P', 'Y'};
constexpr std::size_t max_dimensions = 64;  // NumPy's own limit
constexpr std::size_t max_descr = 1000;     // an error message quotes it
// The limit of version 1 of the format. A header with 64 extents takes 1500 bytes; NumPy reads up to 10000.
constexpr std::uint64_t max_header_bytes = 65535;

/// The header is a Python dict literal. This reads the subset that NumPy writes: string keys; strings, True, False and
/// tuples of whole numbers as values.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  void skip_space() {
    while (!text_.empty() && std::string_view(" \t\r\n").find(text_.front()) != std::string_view::npos) {
      text_.remove_prefix(1);
    }
  }

  [[nodiscard]] bool at_end() const { return text_.empty(); }
  [[nodiscard]] bool next_is(char c) const { return !text_.empty() && text_.front() == c; }

  bool take(char c) {
    skip_space();
    if (!next_is(c)) return false;
    text_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!take(c)) throw NpyError(std::string("malformed .npy header: expected '") + c + "'");
  }

  std::string string() {
    skip_space();
    if (!next_is('\'') && !next_is('"')) throw NpyError("malformed .npy header: expected a string");
    const char quote = text_.front();
    text_.remove_prefix(1);
    const std::size_t end = text_.find(quote);
    if (end == std::string_view::npos) throw NpyError("malformed .npy header: a string without end");
    std::string result(text_.substr(0, end));
    // The text may end up in a message, which must stay one clean line.
    const auto printable = [](char c) { return c >= ' ' && c <= '~' && c != '\\'; };
    if (!std::all_of(result.begin(), result.end(), printable)) {
      throw NpyError("malformed .npy header: a string with odd characters");
    }
    text_.remove_prefix(end + 1);
    return result;
  }

  bool boolean() {
    skip_space();
    if (take_word("True")) return true;
    if (take_word("False")) return false;
    throw NpyError("malformed .npy header: 'fortran_order' is neither True nor False");
  }

  std::int64_t extent() {
    skip_space();
    constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max();
    std::int64_t value = 0;
    bool any = false;
    for (; !text_.empty() && text_.front() >= '0' && text_.front() <= '9'; text_.remove_prefix(1)) {
      const int digit = text_.front() - '0';
      if (value > (limit - digit) / 10) throw NpyError("malformed .npy header: an extent of 'shape' overflows");
      value = value * 10 + digit;
      any = true;
    }
    if (!any) throw NpyError("malformed .npy header: 'shape' is not a tuple of whole numbers");
    if (next_is('L')) text_.remove_prefix(1);  // written by Python 2
    return value;
  }

  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> result;
    expect('(');
    while (!take(')')) {
      if (result.size() == max_dimensions) throw NpyError("malformed .npy header: too many dimensions");
      result.push_back(extent());
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return result;
  }

 private:
  bool take_word(std::string_view word) {
    if (text_.substr(0, word.size()) != word) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  std::string_view text_;
};

/// Splits a descr such as "<f4" into byte order, kind and size. Forms it does not know leave item_bytes 0.
void read_descr(NpyHeader& header) {
  std::string_view descr = header.descr;
  if (!descr.empty() && std::string_view("<>|=").find(descr.front()) != std::string_view::npos) {
    header.byte_order = descr.front();
    descr.remove_prefix(1);
  }
  if (descr.empty()) throw NpyError("malformed .npy header: 'descr' names no type");
  header.kind = descr.front();
  descr.remove_prefix(1);
  std::uint64_t size = 0;
  for (const char c : descr) {
    if (c < '0' || c > '9' || size > (std::uint64_t{1} << 40)) return;
    size = size * 10 + static_cast<std::uint64_t>(c - '0');
  }
  header.item_bytes = header.kind == 'U' ? 4 * size : size;
}

void read_sizes(NpyHeader& header) {
  constexpr auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool empty = std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end();
  header.elements = empty ? 0 : 1;
  for (const std::int64_t extent : header.shape) {
    if (empty) break;
    const auto size = static_cast<std::uint64_t>(extent);
    if (header.elements > limit / size) throw NpyError("malformed .npy header: the size of 'shape' overflows");
    header.elements *= size;
  }
  if (header.item_bytes != 0 && header.elements > limit / header.item_bytes) {
    throw NpyError("malformed .npy header: the size of the data overflows");
  }
  header.data_bytes = header.elements * header.item_bytes;
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> file) {
  if (file.size() < magic.size() || std::memcmp(file.data(), magic.data(), magic.size()) != 0) {
    throw NpyError(file.empty() ? "not a .npy file: it is empty" : "not a .npy file");
  }
  const auto byte_at = [&](std::size_t i) { return std::to_integer<std::uint64_t>(file[i]); };
  constexpr std::size_t version_at = magic.size();
  constexpr std::size_t length_at = version_at + 2;
  if (file.size() < length_at + 4) throw NpyError("truncated .npy file: it ends within its header");
  const std::uint64_t version = byte_at(version_at);
  if (version < 1 || version > 3) {
    throw NpyError("unknown .npy version " + std::to_string(version) + " (1, 2 and 3 are read)");
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= byte_at(length_at + i) << (8 * i);
  const std::size_t text_at = length_at + length_bytes;
  if (length > file.size() - text_at) throw NpyError("truncated .npy file: it ends within its header");
  if (length > max_header_bytes) {
    throw NpyError("malformed .npy header: it takes " + std::to_string(length) + " bytes; accepted: at most " +
                   std::to_string(max_header_bytes));
  }

  NpyHeader header;
  header.data_offset = text_at + static_cast<std::size_t>(length);
  const std::span<const std::byte> text = file.subspan(text_at, static_cast<std::size_t>(length));
  Literal literal(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()));

  bool has_descr = false;
  bool has_order = false;
  bool has_shape = false;
  const auto once = [](bool& seen, const char* key) {
    if (seen) throw NpyError(std::string("malformed .npy header: '") + key + "' is given twice");
    seen = true;
  };
  literal.expect('{');
  while (!literal.take('}')) {
    const std::string key = literal.string();
    literal.expect(':');
    if (key == "descr") {
      once(has_descr, "descr");
      literal.skip_space();
      if (literal.next_is('[')) throw NpyError("a structured dtype; a plain matrix of numbers is needed");
      header.descr = literal.string();
      if (header.descr.size() > max_descr) throw NpyError("malformed .npy header: 'descr' is too long");
    } else if (key == "fortran_order") {
      once(has_order, "fortran_order");
      header.fortran_order = literal.boolean();
    } else if (key == "shape") {
      once(has_shape, "shape");
      header.shape = literal.shape();
    } else {
      throw NpyError("malformed .npy header: a key that is none of descr, fortran_order, shape");
    }
    if (!literal.take(',')) {
      literal.expect('}');
      break;
    }
  }
  literal.skip_space();
  if (!literal.at_end()) throw NpyError("malformed .npy header: text after the closing brace");
  if (!has_descr || !has_order || !has_shape) {
    throw NpyError("malformed .npy header: descr, fortran_order and shape are needed");
  }
  read_descr(header);
  read_sizes(header);
  return header;
}

std::span<const std::byte> npy_data(const NpyHeader& header, std::span<const std::byte> file) {
  const std::size_t available = file.size() - std::min(header.data_offset, file.size());
  if (header.data_bytes > available) {
    throw NpyError("truncated .npy file: its header promises " + std::to_string(header.data_bytes) +
                   " bytes of data, it holds " + std::to_string(available));
  }
  return file.subspan(std::min(header.data_offset, file.size()), static_cast<std::size_t>(header.data_bytes));
}

std::string format_npy_header(std::string_view descr, std::span<const std::int64_t> shape) {
  std::string text = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ' ';
    text += std::to_string(shape[i]) + ",";
  }
  if (shape.size() > 1) text.pop_back();  // (2, 3), but (2,)
  text += "), }";

  constexpr std::size_t fixed = magic.size() + 2 + 2;  // magic, version 1.0, 16-bit length
  constexpr std::size_t alignment = 64;
  const std::size_t total = round_up(fixed + text.size() + 1, alignment);
  text.append(total - fixed - text.size() - 1, ' ');
  text += '\n';

  std::string header(reinterpret_cast<const char*>(magic.data()), magic.size());
  header += '\x01';
  header += '\x00';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8 & 0xff);
  return header + text;
}

}  // namespace rtopk::tool
