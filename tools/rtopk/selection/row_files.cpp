#include "selection/row_files.hpp"

#include <algorithm>
#include <cstring>

#include "files/npy.hpp"
#include "terminal/failure.hpp"

namespace rtopk::tool {

RowFiles::Numbers RowFiles::open(const std::string& option, const std::string& path) {
  Numbers numbers;
  numbers.option = option;
  numbers.path = path;
  if (path.empty()) return numbers;
  numbers.file = std::make_unique<MappedFile>(path);
  try {
    const NpyHeader header = parse_npy_header(numbers.file->bytes());
    const bool integers = header.kind == 'i' && (header.item_bytes == 4 || header.item_bytes == 8);
    if (!integers || header.byte_order == '>') {
      fail("{} '{}' has dtype '{}'; accepted: little-endian int32 or int64", option, path, header.descr);
    }
    if (header.fortran_order && header.shape.size() > 1) {
      fail("{} '{}' is in Fortran order; save it with numpy.ascontiguousarray(a)", option, path);
    }
    const std::span<const std::byte> data = npy_data(header, numbers.file->bytes());
    numbers.type = header.item_bytes == 4 ? ArrayType::i32 : ArrayType::i64;
    numbers.count = static_cast<std::int64_t>(header.elements);
    numbers.data = data.data();
    if (reinterpret_cast<std::uintptr_t>(data.data()) % header.item_bytes != 0) {
      numbers.copy.assign(data.begin(), data.end());
      numbers.data = numbers.copy.data();
    }
  } catch (const NpyError& error) {
    fail("cannot read {} '{}': {}", option, path, error.what());
  }
  return numbers;
}

RowFiles::RowFiles(const RowFlags& flags)
    : lengths_(open("--lengths", flags.lengths)),
      starts_(open("--starts", flags.starts)),
      offsets_(open("--offsets", flags.offsets)),
      row_k_(open("--row-k", flags.row_k)),
      ids_(open("--ids", flags.ids)),
      magnitude_(flags.magnitude),
      thresholds_(!flags.thresholds.empty()),
      is_flat_(offsets_.file != nullptr) {}

void RowFiles::require_count(const Numbers& numbers, std::int64_t count, const std::string& of_what) {
  if (numbers.count == count) return;
  fail("{} '{}' has {} numbers; accepted: {}, one for each {}", numbers.option, numbers.path, numbers.count, count,
       of_what);
}

/// Numbers out of range count as the nearest in range, as they do for the library.
std::int64_t RowFiles::longest_segment(std::int64_t elements) const {
  const auto offset = [&](std::int64_t i) {
    std::int64_t number = 0;
    if (offsets_.type == ArrayType::i64) {
      std::memcpy(&number, offsets_.data + 8 * i, 8);
    } else {
      std::int32_t narrow = 0;
      std::memcpy(&narrow, offsets_.data + 4 * i, 4);
      number = narrow;
    }
    return std::clamp<std::int64_t>(number, 0, elements);
  };
  std::int64_t longest = 0;
  for (std::int64_t i = 1; i < offsets_.count; ++i) longest = std::max(longest, offset(i) - offset(i - 1));
  return longest;
}

void RowFiles::describe(Problem& problem) {
  if (is_flat_) {
    if (problem.rows != 1) {
      fail("--offsets needs a flat input, of one dimension; the input has {} rows", problem.rows);
    }
    if (offsets_.count < 1) fail("--offsets '{}' has no numbers; accepted: one more than segments", offsets_.path);
    problem.ragged.elements = problem.cols;
    problem.rows = offsets_.count - 1;
    problem.cols = std::max({longest_segment(problem.cols), problem.k, std::int64_t{1}});
  }
  const auto add = [&](const Numbers& numbers, ArrayType& type, const void* RowArrays::*member, std::int64_t per_row) {
    if (numbers.file == nullptr) return;
    type = numbers.type;
    const std::size_t size = size_of(numbers.type);
    arrays_.push_back({member, numbers.data, static_cast<std::size_t>(per_row) * size,
                       static_cast<std::size_t>(numbers.count) * size});
  };
  for (const Numbers* numbers : {&lengths_, &starts_, &row_k_}) {
    if (numbers->file != nullptr) require_count(*numbers, problem.rows, is_flat_ ? "segment" : "row");
  }
  add(lengths_, problem.ragged.lengths, &RowArrays::lengths, 1);
  add(starts_, problem.ragged.starts, &RowArrays::starts, 1);
  add(offsets_, problem.ragged.offsets, &RowArrays::offsets, 1);
  add(row_k_, problem.ragged.k, &RowArrays::k, 1);
  if (ids_.file != nullptr) {
    require_count(ids_, is_flat_ ? problem.ragged.elements : problem.rows * problem.cols, "element");
    problem.index_map.kind = IndexKind::ids;
    add(ids_, problem.index_map.type, &RowArrays::map, problem.cols);
  }
  problem.magnitude = magnitude_;
  problem.thresholds = thresholds_;
}

RowArrays RowFiles::from(std::int64_t first) const noexcept {
  RowArrays arrays;
  for (const Array& array : arrays_) {
    arrays.*array.member = array.data + static_cast<std::size_t>(first) * array.row_bytes;
  }
  return arrays;
}

void RowFiles::require_unchanged() const {
  for (const Numbers* numbers : {&lengths_, &starts_, &offsets_, &row_k_, &ids_}) {
    if (numbers->file != nullptr) numbers->file->require_unchanged();
  }
}

}  // namespace rtopk::tool
