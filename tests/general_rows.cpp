// Random arrays of general rows.
#include "general_rows.hpp"

#include <algorithm>
#include <limits>

namespace rtopk_test {

using rtopk::ArrayType;
using rtopk::Form;
using rtopk::IndexKind;
using rtopk::Problem;

namespace {

std::int64_t least_of(ArrayType type) {
  return type == ArrayType::i32 ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int64_t>::min();
}
std::int64_t greatest_of(ArrayType type) {
  return type == ArrayType::i32 ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int64_t>::max();
}

std::vector<std::int64_t> any_numbers(std::int64_t count, std::int64_t most, ArrayType type, Random& random) {
  std::vector<std::int64_t> numbers;
  if (type == ArrayType::none) return numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(any_number(most, type, random));
  return numbers;
}

/// Lengths of rows: any, and those around k.
std::vector<std::int64_t> any_lengths(const Problem& p, Random& random) {
  std::vector<std::int64_t> lengths = any_numbers(p.rows, p.cols, p.ragged.lengths, random);
  for (std::int64_t& length : lengths) {
    if (random.between(0, 3) == 0) length = p.k + random.between(-1, 1);
  }
  return lengths;
}

/// Offsets of segments, some of them empty or longer than `cols`. In one of three arrays some offsets are any number.
std::vector<std::int64_t> any_offsets(const Problem& p, Random& random) {
  const std::int64_t mean = p.rows == 0 ? 0 : p.ragged.elements / p.rows;
  std::vector<std::int64_t> offsets;
  std::int64_t at = random.coin() ? 0 : random.between(0, std::min<std::int64_t>(p.ragged.elements, 3));
  for (std::int64_t row = 0; row <= p.rows; ++row) {
    offsets.push_back(at);
    std::int64_t length = random.between(0, 2 * mean);
    if (random.between(0, 3) == 0) length = random.coin() ? 0 : p.k + random.between(-1, 1);
    at = std::min(at + length, p.ragged.elements);
  }
  if (random.between(0, 2) != 0) return offsets;
  for (std::int64_t& offset : offsets) {
    if (random.between(0, 3) == 0) offset = any_number(p.ragged.elements, p.ragged.offsets, random);
  }
  return offsets;
}

}  // namespace

ArrayBytes::ArrayBytes(const Problem& p, const RowNumbers& numbers)
    : lengths(encode(numbers.lengths, p.ragged.lengths)),
      starts(encode(numbers.starts, p.ragged.starts)),
      offsets(encode(numbers.offsets, p.ragged.offsets)),
      k(encode(numbers.k, p.ragged.k)),
      map(encode(numbers.map, p.index_map.type)),
      table_of(encode(numbers.table_of, p.index_map.table_of)) {}

std::int64_t any_number(std::int64_t most, ArrayType type, Random& random) {
  switch (random.between(0, 15)) {
    case 0: return 0;
    case 1: return std::min<std::int64_t>(most, 1);
    case 2: return std::max<std::int64_t>(most - 1, 0);
    case 3: return most;
    case 4: return most + random.between(1, 9);
    case 5: return -random.between(1, 9);
    case 6: return random.coin() ? least_of(type) : greatest_of(type);
    default: return random.between(0, most);
  }
}

ArrayType any_type(Random& random) { return random.coin() ? ArrayType::i32 : ArrayType::i64; }

void fill_rows(const Problem& p, RowNumbers& numbers, Random& random) {
  numbers.lengths = any_lengths(p, random);
  numbers.starts = any_numbers(p.rows, p.cols, p.ragged.starts, random);
  numbers.k = any_numbers(p.rows, p.k, p.ragged.k, random);
  numbers.offsets.clear();
  if (is_flat(p)) numbers.offsets = any_offsets(p, random);
}

void make_ragged(Problem& p, RowNumbers& numbers, bool flat, Random& random) {
  p.ragged = {};
  if (flat) {
    p.ragged.offsets = any_type(random);
    p.ragged.elements = random.between(0, p.rows * p.cols + 7);
    p.row_stride = 0;
  } else {
    if (random.between(0, 3) != 0) p.ragged.lengths = any_type(random);
    if (random.coin()) p.ragged.starts = any_type(random);
  }
  if (random.between(0, 2) == 0) p.ragged.k = any_type(random);
  fill_rows(p, numbers, random);
}

std::int64_t map_numbers(const Problem& p) {
  const rtopk::IndexMap& map = p.index_map;
  switch (map.kind) {
    case IndexKind::column: return 0;
    case IndexKind::shifted: return p.rows;
    case IndexKind::ids:
      if (is_flat(p)) return p.ragged.elements;
      return p.rows == 0 ? 0 : (p.rows - 1) * (map.stride == 0 ? p.cols : map.stride) + p.cols;
    case IndexKind::pages: break;
  }
  const std::int64_t tables = map.tables == 0 ? p.rows : map.tables;
  return tables == 0 ? 0 : (tables - 1) * (map.stride == 0 ? map.pages : map.stride) + map.pages;
}

void fill_map(const Problem& p, RowNumbers& numbers, Random& random) {
  const bool pages = p.index_map.kind == IndexKind::pages;
  const std::int64_t most =
      p.index_map.type == ArrayType::i32 ? greatest_of(ArrayType::i32) - 9 : std::int64_t{1} << 40;
  numbers.map = any_numbers(map_numbers(p), pages ? 100000 : most, p.index_map.type, random);
  numbers.table_of = any_numbers(p.rows, p.index_map.tables - 1, p.index_map.table_of, random);
}

void map_indices(Problem& p, IndexKind kind, RowNumbers& numbers, Random& random) {
  rtopk::IndexMap map{.kind = kind};
  if (kind != IndexKind::column) {
    map.type = p.index_type == rtopk::IndexType::i32 ? ArrayType::i32 : any_type(random);
  }
  if (kind == IndexKind::ids && !is_flat(p) && random.coin()) map.stride = p.cols + random.between(0, 5);
  if (kind == IndexKind::pages) {
    constexpr std::int64_t kPageSizes[] = {1, 2, 3, 16, 64, 1000};
    map.page_size = random.pick(kPageSizes);
    const std::int64_t needed = (p.cols + map.page_size - 1) / map.page_size;
    map.pages = random.between(0, 2) == 0 ? random.between(1, needed) : needed + random.between(0, 2);
    if (random.coin()) map.stride = map.pages + random.between(0, 5);
    if (random.coin()) {
      map.tables = random.between(1, p.rows + 3);
      map.table_of = any_type(random);
    } else if (random.coin()) {
      map.tables = p.rows + random.between(0, 3);
    }
  }
  p.index_map = map;
  fill_map(p, numbers, random);
}

void generalise(Problem& p, RowNumbers& numbers, Random& random) {
  numbers = {};
  if (random.between(0, 3) != 0) {
    if (p.form == Form::cbsr) {
      p.form = Form::pairs;
      p.index_type = random.coin() ? rtopk::IndexType::i32 : rtopk::IndexType::i64;
    }
    make_ragged(p, numbers, p.form == Form::pairs && random.between(0, 2) == 0, random);
  }
  p.magnitude = random.between(0, 2) == 0;
  if (p.form != Form::pairs) return;
  p.thresholds = random.between(0, 2) == 0;
  if (p.indices && random.coin()) map_indices(p, static_cast<IndexKind>(random.between(0, 3)), numbers, random);
}

Matrix input_for(const Problem& p, Random& random) {
  if (!is_flat(p)) return make_mixed_matrix(p.dtype, p.rows, p.cols, p.k, random);
  Matrix matrix = make_mixed_matrix(p.dtype, (p.ragged.elements + p.cols - 1) / p.cols, p.cols, p.k, random);
  matrix.bytes.resize(static_cast<std::size_t>(p.ragged.elements) * rtopk::size_of(p.dtype));
  return matrix;
}

}  // namespace rtopk_test
