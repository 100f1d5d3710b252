// The input matrix: from a mapped .npy file, or random and made on demand.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rtopk/types.hpp>

#include "files/mapped_file.hpp"
#include "matrix/random.hpp"
#include "system/thread_pool.hpp"

namespace rtopk::tool {

class MatrixSource {
 public:
  virtual ~MatrixSource() = default;

  /// Rows [first, first + count), without gaps. Valid until the next call.
  virtual const void* rows_at(std::int64_t first, std::int64_t count) = 0;
  /// The same rows, copied to `to`. Not to be called at the same time as rows_at.
  virtual void read(std::int64_t first, std::int64_t count, void* to) = 0;
  /// Throws Failure if the matrix is from a file that has changed since it was opened. Call it after reading everything
  /// and before using the results.
  virtual void require_unchanged() const {}
  /// The file that the matrix is from, if any.
  [[nodiscard]] virtual std::optional<FileIdentity> identity() const { return std::nullopt; }

  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t cols() const noexcept { return cols_; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] std::uint64_t row_bytes() const noexcept { return static_cast<std::uint64_t>(cols_) * size_of(dtype_); }
  /// The shape without its last extent, which is `cols`.
  [[nodiscard]] const std::vector<std::int64_t>& leading_shape() const noexcept { return leading_; }

 protected:
  std::vector<std::int64_t> leading_;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  DType dtype_ = DType::f32;
};

/// Opens a C-order little-endian array of floating-point numbers or int32. One dimension is one row; with more than
/// two, all but the last are rows. `dtype` is needed for bf16, which NumPy stores as uint16 (or as raw 2-byte
/// elements); otherwise, if given, it must be the file's type. `pool` copies for read() and must outlive the source.
[[nodiscard]] std::unique_ptr<MatrixSource> open_matrix(const std::string& path, std::optional<DType> dtype,
                                                        ThreadPool& pool);

/// `pool` makes the elements and must outlive the source.
[[nodiscard]] std::unique_ptr<MatrixSource> random_matrix(const RandomSpec& spec, std::int64_t rows, std::int64_t cols,
                                                          ThreadPool& pool);

/// The same elements, written to `out`.
void fill_random(const RandomSpec& spec, std::int64_t first, std::int64_t count, void* out, ThreadPool& pool);

}  // namespace rtopk::tool
