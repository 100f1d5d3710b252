#include "files/npz_writer.hpp"

#include <stdexcept>

#include "files/crc32.hpp"
#include "files/npy.hpp"
#include "files/zip_format.hpp"
#include "rounding.hpp"

namespace rtopk::tool {
namespace {

constexpr std::uint64_t alignment = 64;  // of the elements in the file, so that a reader can use them in place
constexpr std::uint16_t version_plain = 20;
constexpr std::uint16_t version_zip64 = 45;
constexpr std::uint64_t dos_time = 0;
constexpr std::uint64_t dos_date = (1 << 5) | 1;  // 1980-01-01: the same input gives the same bytes

bool needs_zip64(std::uint64_t value) { return value >= zip::in_zip64_32; }

std::uint64_t or_in_zip64(std::uint64_t value) { return needs_zip64(value) ? zip::in_zip64_32 : value; }

}  // namespace

std::size_t NpzWriter::add(const std::string& name, const std::string& descr, std::uint64_t item_bytes,
                           const std::vector<std::int64_t>& shape) {
  Array array;
  array.entry_name = name + ".npy";
  array.npy_header = format_npy_header(descr, shape);
  array.data_bytes = item_bytes;
  for (const std::int64_t extent : shape) array.data_bytes *= static_cast<std::uint64_t>(extent);
  arrays_.push_back(std::move(array));
  return arrays_.size() - 1;
}

std::string NpzWriter::local_record(const Array& array) {
  const bool zip64 = needs_zip64(array.entry_bytes());
  std::string extra;
  if (zip64) {
    zip::put(extra, zip::extra_zip64, 2);
    zip::put(extra, 16, 2);
    zip::put(extra, array.entry_bytes(), 8);
    zip::put(extra, array.entry_bytes(), 8);
  }
  const std::uint64_t unpadded = array.local_at + zip::local_bytes + array.entry_name.size() + extra.size() + 4;
  const std::uint64_t padding = round_up(unpadded, alignment) - unpadded;
  zip::put(extra, zip::extra_padding, 2);
  zip::put(extra, padding, 2);
  extra.append(static_cast<std::size_t>(padding), '\0');

  std::string record;
  zip::put(record, zip::local_signature, 4);
  zip::put(record, zip64 ? version_zip64 : version_plain, 2);
  zip::put(record, 0, 2);  // flags
  zip::put(record, zip::method_stored, 2);
  zip::put(record, dos_time, 2);
  zip::put(record, dos_date, 2);
  zip::put(record, array.crc, 4);
  zip::put(record, or_in_zip64(array.entry_bytes()), 4);
  zip::put(record, or_in_zip64(array.entry_bytes()), 4);
  zip::put(record, array.entry_name.size(), 2);
  zip::put(record, extra.size(), 2);
  return record + array.entry_name + extra;
}

std::string NpzWriter::central_record(const Array& array) {
  std::string numbers;  // the ZIP64 field holds only those that do not fit
  if (needs_zip64(array.entry_bytes())) {
    zip::put(numbers, array.entry_bytes(), 8);
    zip::put(numbers, array.entry_bytes(), 8);
  }
  if (needs_zip64(array.local_at)) zip::put(numbers, array.local_at, 8);
  std::string extra;
  if (!numbers.empty()) {
    zip::put(extra, zip::extra_zip64, 2);
    zip::put(extra, numbers.size(), 2);
    extra += numbers;
  }
  const std::uint16_t version = numbers.empty() ? version_plain : version_zip64;
  constexpr std::uint64_t made_on_unix = 3u << 8;
  constexpr std::uint64_t plain_file_mode = std::uint64_t{0100644} << 16;

  std::string record;
  zip::put(record, zip::central_signature, 4);
  zip::put(record, made_on_unix | version, 2);
  zip::put(record, version, 2);
  zip::put(record, 0, 2);  // flags
  zip::put(record, zip::method_stored, 2);
  zip::put(record, dos_time, 2);
  zip::put(record, dos_date, 2);
  zip::put(record, array.crc, 4);
  zip::put(record, or_in_zip64(array.entry_bytes()), 4);
  zip::put(record, or_in_zip64(array.entry_bytes()), 4);
  zip::put(record, array.entry_name.size(), 2);
  zip::put(record, extra.size(), 2);
  zip::put(record, 0, 2);  // comment
  zip::put(record, 0, 2);  // disk
  zip::put(record, 0, 2);  // internal attributes
  zip::put(record, plain_file_mode, 4);
  zip::put(record, or_in_zip64(array.local_at), 4);
  return record + array.entry_name + extra;
}

std::string NpzWriter::end_records(std::uint64_t directory_bytes) const {
  std::string records;
  if (needs_zip64(directory_at_)) {
    const std::uint64_t end64_at = directory_at_ + directory_bytes;
    zip::put(records, zip::end64_signature, 4);
    zip::put(records, zip::end64_bytes - 12, 8);  // the size does not count itself and the signature
    zip::put(records, version_zip64, 2);
    zip::put(records, version_zip64, 2);
    zip::put(records, 0, 4);  // this disk
    zip::put(records, 0, 4);  // the directory's disk
    zip::put(records, arrays_.size(), 8);
    zip::put(records, arrays_.size(), 8);
    zip::put(records, directory_bytes, 8);
    zip::put(records, directory_at_, 8);
    zip::put(records, zip::locator64_signature, 4);
    zip::put(records, 0, 4);
    zip::put(records, end64_at, 8);
    zip::put(records, 1, 4);  // disks
  }
  zip::put(records, zip::end_signature, 4);
  zip::put(records, 0, 2);
  zip::put(records, 0, 2);
  zip::put(records, arrays_.size(), 2);
  zip::put(records, arrays_.size(), 2);
  zip::put(records, directory_bytes, 4);
  zip::put(records, or_in_zip64(directory_at_), 4);
  zip::put(records, 0, 2);  // comment
  return records;
}

void NpzWriter::begin() {
  std::uint64_t at = 0;
  std::uint64_t directory_bytes = 0;
  for (Array& array : arrays_) {
    array.local_at = at;
    array.data_at = at + local_record(array).size() + array.npy_header.size();
    array.crc = crc32(0, std::as_bytes(std::span<const char>(array.npy_header)));
    at = array.data_at + array.data_bytes;
    directory_bytes += central_record(array).size();
  }
  directory_at_ = at;
  file_bytes_ = at + directory_bytes + end_records(directory_bytes).size();
  file_.reserve(file_bytes_);
}

void NpzWriter::write(std::size_t array, std::span<const std::byte> bytes) {
  Array& target = arrays_[array];
  if (bytes.size() > target.data_bytes - target.written) throw std::logic_error("an array grew past its size");
  file_.write_at(target.data_at + target.written, bytes);
  target.crc = crc32(target.crc, bytes);
  target.written += bytes.size();
}

void NpzWriter::finish() {
  std::string directory;
  for (const Array& array : arrays_) {
    if (array.written != array.data_bytes) throw std::logic_error("an array is not complete");
    file_.write_at(array.local_at, local_record(array) + array.npy_header);  // its checksum is known only now
    directory += central_record(array);
  }
  file_.write_at(directory_at_, directory + end_records(directory.size()));
}

}  // namespace rtopk::tool
