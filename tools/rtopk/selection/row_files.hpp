// The .npy files that describe general rows: lengths, starts, offsets, k of each row, and ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rtopk/select.hpp>

#include "files/mapped_file.hpp"

namespace rtopk::tool {

/// The options as given; empty if they are not.
struct RowFlags {
  std::string lengths, starts, offsets, row_k, ids;
  std::string thresholds;  ///< A file to write.
  bool magnitude = false;
};

class RowFiles {
 public:
  /// Opens the files. Throws Failure, with the name of the option.
  explicit RowFiles(const RowFlags& flags);

  /// Puts arrays, magnitude and thresholds into `problem`, which describes the whole input; its k must be set. With
  /// offsets, the input must be a single row, and the segments become the rows. Throws Failure if a file does not fit.
  void describe(Problem& problem);

  /// True if rows are segments of a flat input.
  [[nodiscard]] bool is_flat() const noexcept { return is_flat_; }

  /// A part of RowArrays, in host memory.
  struct Array {
    const void* RowArrays::*member;
    const std::byte* data;
    std::size_t row_bytes;
    std::size_t bytes;  ///< Of all rows. With offsets, which are one more than rows, all are read at once.
  };
  /// Those that describe() has put into a problem.
  [[nodiscard]] const std::vector<Array>& arrays() const noexcept { return arrays_; }

  /// The arrays of the rows from `first` on.
  [[nodiscard]] RowArrays from(std::int64_t first) const noexcept;

  /// Throws Failure if a file has changed since it was opened.
  void require_unchanged() const;

 private:
  struct Numbers {
    std::string option;
    std::string path;
    std::unique_ptr<MappedFile> file;  ///< Null if the option is not given.
    ArrayType type = ArrayType::none;
    std::int64_t count = 0;
    const std::byte* data = nullptr;
    std::vector<std::byte> copy;  ///< Of numbers that are not aligned in the file.
  };
  static Numbers open(const std::string& option, const std::string& path);
  static void require_count(const Numbers& numbers, std::int64_t count, const std::string& of_what);
  [[nodiscard]] std::int64_t longest_segment(std::int64_t elements) const;

  Numbers lengths_, starts_, offsets_, row_k_, ids_;
  bool magnitude_ = false;
  bool thresholds_ = false;
  bool is_flat_ = false;
  std::vector<Array> arrays_;
};

}  // namespace rtopk::tool
