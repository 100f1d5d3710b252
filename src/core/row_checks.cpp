// Checks of the options and arrays that describe general rows.
#include "core/row_checks.hpp"

#include <limits>

#include "core/checks.hpp"
#include "core/placement.hpp"
#include "core/rows.hpp"

namespace rtopk::core {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 16;  ///< Numbers in an array.

Status refused(const char* text) { return {StatusCode::invalid_argument, text}; }

Status check_types(const Problem& p) {
  const struct {
    const char* argument;
    ArrayType type;
  } arrays[] = {{"ragged.lengths", p.ragged.lengths}, {"ragged.starts", p.ragged.starts},
                {"ragged.offsets", p.ragged.offsets}, {"ragged.k", p.ragged.k},
                {"index_map.type", p.index_map.type}, {"index_map.table_of", p.index_map.table_of}};
  for (const auto& [argument, type] : arrays) {
    if (type > ArrayType::i64) return invalid(argument, static_cast<int>(type), "none, i32 or i64");
  }
  if (p.index_map.kind > IndexKind::shifted) {
    return invalid("index_map.kind", static_cast<int>(p.index_map.kind), "column, ids, pages or shifted");
  }
  return {};
}

Status check_ragged(const Problem& p) {
  const Ragged& r = p.ragged;
  if (exists(r.offsets) && (exists(r.lengths) || exists(r.starts))) {
    return refused("ragged.offsets is given beside lengths or starts; accepted: offsets alone, or the others");
  }
  if (r.elements < 0 || r.elements > kMost) return invalid("ragged.elements", r.elements, "0 to 2^59");
  if (r.elements != 0 && !exists(r.offsets)) return invalid("ragged.elements", r.elements, "0 without offsets");
  if (exists(r.offsets) && p.row_stride != 0) return invalid("row_stride", p.row_stride, "0 with ragged.offsets");
  if (!is_ragged(p)) return {};
  if (!elements_are_adjacent(p) || p.group_rows != 0) {
    return refused("element_stride or group_rows is given beside ragged; accepted: rows whose elements are adjacent");
  }
  if (p.form == Form::cbsr) return refused("form is cbsr; accepted for ragged rows: pairs, dense or mask");
  if (exists(r.offsets) && p.form != Form::pairs) {
    return status(StatusCode::invalid_argument, "form is %s; accepted with ragged.offsets: pairs", name(p.form));
  }
  // Indices are then places in the flat input.
  const bool places = exists(r.offsets) && p.indices && p.index_map.kind == IndexKind::column;
  if (places && p.index_type == IndexType::i32 && r.elements > std::int64_t{1} << 31) {
    return status(StatusCode::invalid_argument,
                  "index_type is i32 and ragged.elements %lld; accepted: index_type i64, or at most 2^31 elements",
                  static_cast<long long>(r.elements));
  }
  return {};
}

Status check_map(const Problem& p) {
  const IndexMap& m = p.index_map;
  if (m.kind == IndexKind::column) {
    return m == IndexMap{} ? Status{} : refused("index_map.kind is column; accepted for it: no other field");
  }
  if (p.form != Form::pairs || !p.indices) {
    return refused("index_map is given without indices; accepted: form pairs with indices");
  }
  if (!elements_are_adjacent(p) || p.group_rows != 0) {
    return refused(
        "element_stride or group_rows is given beside index_map; accepted: rows whose elements are adjacent");
  }
  if (!exists(m.type)) return refused("index_map.type is none; accepted: i32 or i64");
  if (m.type == ArrayType::i64 && p.index_type != IndexType::i64) {
    return status(StatusCode::invalid_argument, "index_type is %s and index_map.type i64; accepted: index_type i64",
                  name(p.index_type));
  }
  if (m.kind != IndexKind::pages && (m.pages != 0 || m.page_size != 0 || m.tables != 0 || exists(m.table_of))) {
    return status(StatusCode::invalid_argument,
                  "index_map.kind is %s; accepted: pages, page_size, tables and table_of only for kind pages",
                  name(m.kind));
  }
  if (m.kind == IndexKind::shifted && m.stride != 0) return invalid("index_map.stride", m.stride, "0 for kind shifted");
  if (m.kind == IndexKind::ids && is_flat(p) && m.stride != 0) {
    return invalid("index_map.stride", m.stride, "0 with ragged.offsets");
  }
  if (m.kind == IndexKind::pages) {
    if (m.pages < 1 || m.pages > kMost) return invalid("index_map.pages", m.pages, "1 or more, at most 2^59");
    if (m.page_size < 1) return invalid("index_map.page_size", m.page_size, "1 or more");
    if (m.tables < 0) return invalid("index_map.tables", m.tables, "0 (one for each row) or more");
    if (!exists(m.table_of) && m.tables != 0 && m.tables < p.rows) {
      return invalid("index_map.tables", m.tables, "0 or at least rows, without table_of");
    }
    if (exists(m.table_of) && m.tables == 0) return invalid("index_map.tables", m.tables, "1 or more with table_of");
  }
  const std::int64_t least = m.kind == IndexKind::pages ? m.pages : p.cols;
  if (m.stride != 0 && (m.stride < least || m.stride > kMost)) {
    return status(StatusCode::invalid_argument, "index_map.stride is %lld; accepted: 0 or at least %lld",
                  static_cast<long long>(m.stride), static_cast<long long>(least));
  }
  const IndexMap whole = whole_map(p);
  const std::int64_t arrays = m.kind == IndexKind::pages ? whole.tables : p.rows;
  if (arrays > kMost / whole.stride) return invalid("index_map.stride", m.stride, "at most 2^59 numbers in the map");
  return {};
}

}  // namespace

Status check_rows(const Problem& problem) noexcept {
  for (const auto check : {check_types, check_ragged, check_map}) {
    if (Status result = check(problem); !result.ok()) return result;
  }
  if (problem.thresholds && problem.form != Form::pairs) {
    return status(StatusCode::invalid_argument, "thresholds is on and form %s; accepted: form pairs",
                  name(problem.form));
  }
  return {};
}

void add_arrays(const Problem& p, const RowArrays& arrays, Regions& regions) noexcept {
  const auto read = [&](const char* argument, const void* array, ArrayType type, std::int64_t count) {
    if (exists(type)) regions.read(argument, array, count, size_of(type));
  };
  read("arrays.lengths", arrays.lengths, p.ragged.lengths, p.rows);
  read("arrays.starts", arrays.starts, p.ragged.starts, p.rows);
  read("arrays.offsets", arrays.offsets, p.ragged.offsets, p.rows + 1);
  read("arrays.k", arrays.k, p.ragged.k, p.rows);
  const IndexMap map = whole_map(p);
  switch (map.kind) {
    case IndexKind::column: return;
    case IndexKind::shifted: read("arrays.map", arrays.map, map.type, p.rows); break;
    case IndexKind::ids:
      read("arrays.map", arrays.map, map.type, is_flat(p) ? p.ragged.elements : (p.rows - 1) * map.stride + p.cols);
      break;
    case IndexKind::pages:
      read("arrays.map", arrays.map, map.type, (map.tables - 1) * map.stride + map.pages);
      read("arrays.table_of", arrays.table_of, map.table_of, p.rows);
      break;
  }
}

}  // namespace rtopk::core
