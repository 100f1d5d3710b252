#include "files/npz_reader.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "files/zip_format.hpp"

namespace rtopk::tool {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint64_t max_entries = 65535;  // the limit of a zip file without ZIP64

[[noreturn]] void damaged(const char* what) { throw NpyError(std::string("damaged .npz file: ") + what); }

std::uint64_t get(Bytes bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) damaged("a record reaches past the end");
  std::uint64_t value = 0;
  for (std::uint64_t i = 0; i < size; ++i) {
    value |= std::to_integer<std::uint64_t>(bytes[static_cast<std::size_t>(offset + i)]) << (8 * i);
  }
  return value;
}

Bytes part(Bytes bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) damaged("an entry reaches past the end");
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

/// The end record is found from the back, since a comment of up to 64 KiB may follow it.
std::uint64_t find_end_record(Bytes file) {
  if (file.size() < zip::end_bytes) throw NpyError("not a .npz file");
  const std::size_t last = file.size() - zip::end_bytes;
  const std::size_t first = last - std::min<std::size_t>(last, 0xffff);
  for (std::size_t at = last;; --at) {
    if (get(file, at, 4) == zip::end_signature && get(file, at + 20, 2) == file.size() - at - zip::end_bytes) return at;
    if (at == first) break;
  }
  const bool starts_like_zip = get(file, 0, 4) == zip::local_signature;
  throw NpyError(starts_like_zip ? "truncated .npz file: it has no end record" : "not a .npz file");
}

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t entries = 0;
};

Directory find_directory(Bytes file) {
  const std::uint64_t end = find_end_record(file);
  Directory directory{.offset = get(file, end + 16, 4), .entries = get(file, end + 10, 2)};
  const bool is_zip64 = directory.offset == zip::in_zip64_32 || directory.entries == zip::in_zip64_16 ||
                        get(file, end + 12, 4) == zip::in_zip64_32;
  if (!is_zip64) return directory;
  if (end < zip::locator64_bytes) damaged("the ZIP64 locator is missing");
  const std::uint64_t locator = end - zip::locator64_bytes;
  if (get(file, locator, 4) != zip::locator64_signature) damaged("the ZIP64 locator is missing");
  const std::uint64_t end64 = get(file, locator + 8, 8);
  if (end64 > file.size() || get(file, end64, 4) != zip::end64_signature) damaged("the ZIP64 end record is missing");
  return {.offset = get(file, end64 + 48, 8), .entries = get(file, end64 + 32, 8)};
}

struct Entry {
  std::string name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t stored_size = 0;
  std::uint64_t size = 0;
  std::uint64_t local_at = 0;
};

/// Replaces the 32-bit fields that are all ones by the ZIP64 extra field's numbers, which come in this order.
void read_zip64_extra(Bytes extra, Entry& entry) {
  while (extra.size() >= 4) {
    const std::uint64_t id = get(extra, 0, 2);
    const Bytes field = part(extra, 4, get(extra, 2, 2));
    if (id == zip::extra_zip64) {
      std::uint64_t at = 0;
      for (std::uint64_t* value : {&entry.size, &entry.stored_size, &entry.local_at}) {
        if (*value != zip::in_zip64_32) continue;
        *value = get(field, at, 8);
        at += 8;
      }
      return;
    }
    extra = extra.subspan(4 + field.size());
  }
}

/// Reads the directory record at `at` and moves `at` behind it.
Entry read_entry(Bytes file, std::uint64_t& at) {
  if (get(file, at, 4) != zip::central_signature) damaged("its directory is malformed");
  const std::uint64_t name_bytes = get(file, at + 28, 2);
  const std::uint64_t extra_bytes = get(file, at + 30, 2);
  const std::uint64_t comment_bytes = get(file, at + 32, 2);
  Entry entry;
  entry.flags = static_cast<std::uint16_t>(get(file, at + 8, 2));
  entry.method = static_cast<std::uint16_t>(get(file, at + 10, 2));
  entry.crc = static_cast<std::uint32_t>(get(file, at + 16, 4));
  entry.stored_size = get(file, at + 20, 4);
  entry.size = get(file, at + 24, 4);
  entry.local_at = get(file, at + 42, 4);
  const Bytes name = part(file, at + zip::central_bytes, name_bytes);
  entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (!std::all_of(entry.name.begin(), entry.name.end(), printable)) damaged("an entry's name has odd characters");
  read_zip64_extra(part(file, at + zip::central_bytes + name_bytes, extra_bytes), entry);
  at += zip::central_bytes + name_bytes + extra_bytes + comment_bytes;
  return entry;
}

/// Where an entry is in the file: its local record, and what is stored.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t data = 0;
  std::uint64_t end = 0;
};

Extent find_extent(Bytes file, const Entry& entry) {
  if (get(file, entry.local_at, 4) != zip::local_signature) damaged("an entry is not where its directory says");
  // The local record's extra fields may differ in length from the directory's.
  const std::uint64_t name_bytes = get(file, entry.local_at + 26, 2);
  const std::uint64_t extra_bytes = get(file, entry.local_at + 28, 2);
  const Bytes name = part(file, entry.local_at + zip::local_bytes, name_bytes);
  if (std::string_view(reinterpret_cast<const char*>(name.data()), name.size()) != entry.name) {
    damaged("an entry has two names");
  }
  const std::uint64_t data = entry.local_at + zip::local_bytes + name_bytes + extra_bytes;
  return {.begin = entry.local_at, .data = data, .end = data + part(file, data, entry.stored_size).size()};
}

void require_apart(std::vector<Extent>& extents) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end) damaged("two entries overlap");
  }
}

NpzArray read_array(Bytes file, const Entry& entry, const Extent& extent) {
  if ((entry.flags & zip::flag_encrypted) != 0) throw NpyError("'" + entry.name + "' is encrypted");
  if (entry.method != zip::method_stored) {
    throw NpyError("'" + entry.name + "' is compressed (save with numpy.savez, not savez_compressed)");
  }
  if (entry.stored_size != entry.size) damaged("a stored entry has two sizes");
  NpzArray array;
  array.entry = part(file, extent.data, entry.size);
  array.crc = entry.crc;
  try {
    array.header = parse_npy_header(array.entry);
    array.data = npy_data(array.header, array.entry);
  } catch (const NpyError& error) {
    throw NpyError("array '" + entry.name + "': " + error.what());
  }
  return array;
}

}  // namespace

NpzArrays parse_npz(Bytes file, std::span<const std::string_view> wanted) {
  const Directory directory = find_directory(file);
  if (directory.entries > max_entries) {
    throw NpyError("it has " + std::to_string(directory.entries) + " entries; accepted: at most " +
                   std::to_string(max_entries));
  }
  NpzArrays arrays;
  std::vector<Extent> extents;
  std::uint64_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const Entry entry = read_entry(file, at);
    extents.push_back(find_extent(file, entry));
    constexpr std::string_view suffix = ".npy";
    if (!entry.name.ends_with(suffix)) continue;
    const std::string name = entry.name.substr(0, entry.name.size() - suffix.size());
    if (std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
    if (!arrays.emplace(name, read_array(file, entry, extents.back())).second) {
      damaged("it has two arrays of the same name");
    }
  }
  require_apart(extents);
  return arrays;
}

}  // namespace rtopk::tool
