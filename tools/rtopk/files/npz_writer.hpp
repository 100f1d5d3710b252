// Writes .npz files whose arrays grow side by side. Their sizes are given at the start, so every array has a fixed
// place in the file and its chunks are written as they come, without a buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "files/output_file.hpp"

namespace rtopk::tool {

class NpzWriter {
 public:
  explicit NpzWriter(OutputFile& file) : file_(file) {}

  /// Declares an array in C order with elements of `item_bytes` bytes and returns its number. Call before begin().
  std::size_t add(const std::string& name, const std::string& descr, std::uint64_t item_bytes,
                  const std::vector<std::int64_t>& shape);
  /// Fixes the layout and reserves the space.
  void begin();
  /// Appends to the array.
  void write(std::size_t array, std::span<const std::byte> bytes);
  /// Completes the .npz file. Every array must be complete. The caller commits the file.
  void finish();

  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return file_bytes_; }

 private:
  struct Array {
    std::string entry_name;
    std::string npy_header;
    std::uint64_t data_bytes = 0;
    std::uint64_t local_at = 0;  // where its local record begins
    std::uint64_t data_at = 0;   // where its elements begin
    std::uint64_t written = 0;
    std::uint32_t crc = 0;

    [[nodiscard]] std::uint64_t entry_bytes() const noexcept { return npy_header.size() + data_bytes; }
  };

  [[nodiscard]] static std::string local_record(const Array& array);
  [[nodiscard]] static std::string central_record(const Array& array);
  [[nodiscard]] std::string end_records(std::uint64_t directory_bytes) const;

  OutputFile& file_;
  std::vector<Array> arrays_;
  std::uint64_t directory_at_ = 0;
  std::uint64_t file_bytes_ = 0;
};

}  // namespace rtopk::tool
