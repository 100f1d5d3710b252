#include "soak/general_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>

namespace rtopk::tool {
namespace {

ArrayType draw_type(SplitMix& random) { return random.one_in(2) ? ArrayType::i32 : ArrayType::i64; }

/// Mostly 0 to `most`, sometimes what no row can have.
std::int64_t draw_number(std::int64_t most, SplitMix& random) {
  switch (random.between(0, 15)) {
    case 0: return 0;
    case 1: return most;
    case 2: return most + random.between(1, 9);
    case 3: return -random.between(1, 9);
    case 4:
      return random.one_in(2) ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int32_t>::max();
    default: return random.between(0, most);
  }
}

class Arrays {
 public:
  explicit Arrays(SplitMix& random) : random_(random) {}

  /// Adds an array of `count` numbers and returns its type.
  ArrayType add(const void* RowArrays::*member, ArrayType type, std::int64_t count,
                const std::function<std::int64_t()>& number) {
    RowArray array{.member = member, .type = type, .bytes = {}};
    for (std::int64_t i = 0; i < count; ++i) append(array, number());
    all_.push_back(std::move(array));
    return type;
  }
  ArrayType add(const void* RowArrays::*member, std::int64_t count, std::int64_t most) {
    return add(member, draw_type(random_), count, [&] { return draw_number(most, random_); });
  }
  [[nodiscard]] std::vector<RowArray> take() { return std::move(all_); }

 private:
  static void append(RowArray& array, std::int64_t number) {
    const auto put = [&](auto x) {
      const auto* from = reinterpret_cast<const std::byte*>(&x);
      array.bytes.insert(array.bytes.end(), from, from + sizeof x);
    };
    if (array.type == ArrayType::i32) {
      put(static_cast<std::int32_t>(number));
    } else {
      put(number);
    }
  }

  SplitMix& random_;
  std::vector<RowArray> all_;
};

void draw_segments(Problem& problem, Arrays& arrays, SplitMix& random) {
  problem.ragged.elements = problem.rows * problem.cols;
  const bool wild = random.one_in(4);
  std::int64_t at = 0;
  problem.ragged.offsets = arrays.add(&RowArrays::offsets, draw_type(random), problem.rows + 1, [&] {
    if (wild && random.one_in(4)) return draw_number(problem.ragged.elements, random);
    const std::int64_t offset = at;
    at = std::min(at + random.between(0, 2 * problem.cols), problem.ragged.elements);
    return offset;
  });
}

void draw_map(Problem& problem, Arrays& arrays, SplitMix& random) {
  IndexMap& map = problem.index_map;
  const bool flat = problem.ragged.offsets != ArrayType::none;
  const ArrayType type = problem.index_type == IndexType::i32 ? ArrayType::i32 : draw_type(random);
  const auto number = [&] { return random.between(-1, 1 << 20); };
  switch (random.between(0, 2)) {
    case 0:
      map.kind = IndexKind::ids;
      map.type =
          arrays.add(&RowArrays::map, type, flat ? problem.ragged.elements : problem.rows * problem.cols, number);
      break;
    case 1:
      map.kind = IndexKind::shifted;
      map.type = arrays.add(&RowArrays::map, type, problem.rows, number);
      break;
    default:
      map.kind = IndexKind::pages;
      map.page_size = random.log_between(1, 128);
      map.pages = std::max<std::int64_t>(problem.cols / map.page_size + random.between(-1, 1), 1);
      map.tables = random.one_in(2) ? problem.rows : random.between(1, problem.rows);
      if (map.tables < problem.rows || random.one_in(2)) {
        map.table_of = arrays.add(&RowArrays::table_of, problem.rows, map.tables - 1);
      }
      map.type = arrays.add(&RowArrays::map, type, map.tables * map.pages, number);
      break;
  }
}

}  // namespace

std::vector<RowArray> draw_general_rows(Problem& problem, SplitMix& random) {
  Arrays arrays(random);
  if (problem.form != Form::cbsr) {
    if (problem.form == Form::pairs && random.one_in(3)) {
      draw_segments(problem, arrays, random);
    } else {
      if (!random.one_in(3)) problem.ragged.lengths = arrays.add(&RowArrays::lengths, problem.rows, problem.cols);
      if (random.one_in(2)) problem.ragged.starts = arrays.add(&RowArrays::starts, problem.rows, problem.cols);
    }
    if (random.one_in(3)) problem.ragged.k = arrays.add(&RowArrays::k, problem.rows, problem.k);
  }
  problem.magnitude = random.one_in(3);
  if (problem.form == Form::pairs) {
    problem.thresholds = random.one_in(3);
    if (problem.indices && random.one_in(3)) draw_map(problem, arrays, random);
  }
  return arrays.take();
}

bool is_general(const Problem& problem) {
  return problem.ragged != Ragged{} || problem.index_map != IndexMap{} || problem.magnitude || problem.thresholds;
}

std::string general_text(const Problem& problem) {
  std::string text;
  const auto add = [&](bool there, const char* what) {
    if (!there) return;
    text += ", ";
    text += what;
  };
  add(problem.ragged.lengths != ArrayType::none, "lengths");
  add(problem.ragged.starts != ArrayType::none, "starts");
  add(problem.ragged.offsets != ArrayType::none, "segments");
  add(problem.ragged.k != ArrayType::none, "k of each row");
  add(problem.index_map.kind != IndexKind::column, name(problem.index_map.kind));
  add(problem.magnitude, "by magnitude");
  add(problem.thresholds, "thresholds");
  return text;
}

}  // namespace rtopk::tool
