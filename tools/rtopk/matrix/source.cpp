#include "matrix/source.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include <unistd.h>

#include "files/npy.hpp"
#include "rounding.hpp"
#include "terminal/failure.hpp"
#include "terminal/text.hpp"

namespace rtopk::tool {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and are used in place");

std::optional<DType> plain_dtype(const NpyHeader& header) {
  if (header.kind == 'f' && header.item_bytes == 4) return DType::f32;
  if (header.kind == 'f' && header.item_bytes == 2) return DType::f16;
  if (header.kind == 'f' && header.item_bytes == 8) return DType::f64;
  if (header.kind == 'i' && header.item_bytes == 4) return DType::i32;
  return std::nullopt;
}

DType resolve_dtype(const std::string& path, const NpyHeader& header, std::optional<DType> wanted) {
  if (header.byte_order == '>') {
    fail("'{}' is big-endian (dtype '{}'); save it with .astype(a.dtype.newbyteorder('<'))", path, header.descr);
  }
  const bool may_be_bf16 = header.item_bytes == 2 && (header.kind == 'u' || header.kind == 'V');
  if (may_be_bf16 && wanted == DType::bf16) return DType::bf16;
  const std::optional<DType> found = plain_dtype(header);
  if (!found) {
    fail("'{}' has dtype '{}'; float32, float16, float64 and int32 are read{}", path, header.descr,
         may_be_bf16 ? ", and bfloat16 bits with --dtype bf16" : "");
  }
  if (wanted && *wanted != *found) {
    fail("'{}' has dtype '{}', which is {}, not {}", path, header.descr, name(*found), name(*wanted));
  }
  return *found;
}

class FileMatrix final : public MatrixSource {
 public:
  FileMatrix(const std::string& path, std::optional<DType> wanted, ThreadPool& pool) : file_(path), pool_(pool) {
    NpyHeader header;
    try {
      header = parse_npy_header(file_.bytes());
    } catch (const NpyError& error) {
      fail("cannot read '{}': {}", path, error.what());
    }
    dtype_ = resolve_dtype(path, header, wanted);
    const bool one_dimension = header.shape.size() <= 1;  // for which C and Fortran order are the same
    if (header.fortran_order && !one_dimension) {
      fail("'{}' is in Fortran order; save it with numpy.ascontiguousarray(a)", path);
    }
    if (header.shape.empty()) fail("'{}' is a single number; a matrix is needed", path);
    try {
      data_ = npy_data(header, file_.bytes());
    } catch (const NpyError& error) {
      fail("cannot read '{}': {}", path, error.what());
    }
    cols_ = header.shape.back();
    leading_.assign(header.shape.begin(), header.shape.end() - 1);
    rows_ = 1;
    const bool no_rows = std::find(leading_.begin(), leading_.end(), 0) != leading_.end();
    for (const std::int64_t extent : leading_) {
      if (no_rows) {
        rows_ = 0;
        break;
      }
      if (rows_ > std::numeric_limits<std::int64_t>::max() / extent) fail("'{}' has too many rows", path);
      rows_ *= extent;
    }
    aligned_ = reinterpret_cast<std::uintptr_t>(data_.data()) % size_of(dtype_) == 0;
  }

  const void* rows_at(std::int64_t first, std::int64_t count) override {
    const std::span<const std::byte> part = advance_to(first, count);
    if (aligned_) return part.data();
    copy_.assign(part.begin(), part.end());  // NumPy aligns the data, other writers may not
    return copy_.data();
  }

  void read(std::int64_t first, std::int64_t count, void* to) override {
    const std::span<const std::byte> part = advance_to(first, count);
    copy_bytes(part.data(), to, part.size(), pool_);
  }

  void require_unchanged() const override { file_.require_unchanged(); }
  [[nodiscard]] std::optional<FileIdentity> identity() const override { return file_.identity(); }

 private:
  /// The bytes of these rows. Gives back the memory of the rows before them and starts reading those after them.
  std::span<const std::byte> advance_to(std::int64_t first, std::int64_t count) {
    if (first == 0) done_ = 0;
    if (begin_of(first) > done_) file_.done_with(data_.subspan(done_, begin_of(first) - done_));
    done_ = begin_of(first);
    const std::span<const std::byte> part = data_.subspan(begin_of(first), begin_of(count));
    const std::size_t end = begin_of(first) + part.size();
    file_.will_need(data_.subspan(end, std::min(part.size(), data_.size() - end)));
    return part;
  }

  [[nodiscard]] std::size_t begin_of(std::int64_t row) const noexcept {
    return static_cast<std::size_t>(static_cast<std::uint64_t>(row) * row_bytes());
  }

  MappedFile file_;
  ThreadPool& pool_;
  std::span<const std::byte> data_;
  std::size_t done_ = 0;  // bytes whose memory was given back
  bool aligned_ = true;
  std::vector<std::byte> copy_;
};

class RandomMatrix final : public MatrixSource {
 public:
  RandomMatrix(const RandomSpec& spec, std::int64_t rows, std::int64_t cols, ThreadPool& pool)
      : spec_(spec), pool_(pool) {
    if (cols > 0 && rows > std::numeric_limits<std::int64_t>::max() / 8 / cols) {
      fail("--random {}x{} is too large", rows, cols);
    }
    // At least one row must fit in memory. The shape may come from a saved file and be anything.
    const auto memory =
        static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    if (static_cast<std::uint64_t>(cols) > memory / size_of(spec.dtype)) {
      fail("--random {}x{} is too large: this machine has {} of memory, too little for a row", rows, cols,
           bytes_text(static_cast<double>(memory)));
    }
    rows_ = rows;
    cols_ = cols;
    leading_ = {rows};
    dtype_ = spec.dtype;
  }

  const void* rows_at(std::int64_t first, std::int64_t count) override {
    buffer_.resize(static_cast<std::size_t>(count) * row_bytes());
    read(first, count, buffer_.data());
    return buffer_.data();
  }

  void read(std::int64_t first, std::int64_t count, void* to) override {
    fill_random(spec_, first * cols_, count * cols_, to, pool_);
  }

 private:
  RandomSpec spec_;
  ThreadPool& pool_;
  std::vector<std::byte> buffer_;
};

}  // namespace

std::unique_ptr<MatrixSource> open_matrix(const std::string& path, std::optional<DType> dtype, ThreadPool& pool) {
  return std::make_unique<FileMatrix>(path, dtype, pool);
}

std::unique_ptr<MatrixSource> random_matrix(const RandomSpec& spec, std::int64_t rows, std::int64_t cols,
                                            ThreadPool& pool) {
  return std::make_unique<RandomMatrix>(spec, rows, cols, pool);
}

void fill_random(const RandomSpec& spec, std::int64_t first, std::int64_t count, void* out, ThreadPool& pool) {
  constexpr std::int64_t block = std::int64_t{1} << 16;
  const auto size = static_cast<std::int64_t>(size_of(spec.dtype));
  pool.run(ceil_div(count, block), [&](std::int64_t i) {
    const std::int64_t begin = i * block;
    fill_random(spec, first + begin, std::min(block, count - begin), static_cast<std::byte*>(out) + begin * size);
  });
}

}  // namespace rtopk::tool
