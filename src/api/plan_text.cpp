// Prints plans.
#include <cstdio>
#include <string>
#include <utility>

#include <rtopk/select.hpp>

#include "core/placement.hpp"

namespace rtopk {
namespace {

// Does not use std::ostringstream: it crashed in processes that had loaded PyTorch, which brings symbols of its own
// libstdc++.
struct Printed {
  char text[32];
};

template <class Number>
Printed printed(const char* format, Number number) {
  Printed result;
  std::snprintf(result.text, sizeof result.text, format, number);
  return result;
}

class Lines {
 public:
  void add(const char* key, const char* value) {
    text_ += key;
    text_ += '=';
    text_ += value;
    text_ += '\n';
  }
  void add(const char* key, std::int64_t value) { add(key, printed("%lld", static_cast<long long>(value)).text); }
  void add(const char* key, std::size_t value) { add(key, printed("%zu", value).text); }
  void add(const char* key, double value) { add(key, printed("%g", value).text); }

  void add(const char* key, Device device) {
    add(key, (std::string(name(device.kind)) + printed(":%d", static_cast<int>(device.ordinal)).text).c_str());
  }

  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

/// The arrays that describe rows and indices.
void add_arrays(const Problem& p, Lines& lines) {
  const auto add = [&](const char* key, ArrayType type) {
    if (type != ArrayType::none) lines.add(key, name(type));
  };
  add("lengths", p.ragged.lengths);
  add("starts", p.ragged.starts);
  add("offsets", p.ragged.offsets);
  add("row_k", p.ragged.k);
  if (p.ragged.elements != 0) lines.add("elements", p.ragged.elements);
  if (p.index_map.kind == IndexKind::column) return;
  lines.add("index_kind", name(p.index_map.kind));
  add("map_type", p.index_map.type);
  if (p.index_map.kind == IndexKind::pages) lines.add("page_size", p.index_map.page_size);
}

}  // namespace

std::string to_string(const Plan& plan) {
  const Problem& p = plan.problem;
  Lines lines;
  lines.add("family", name(plan.family));
  lines.add("device", p.device);
  lines.add("rows", p.rows);
  lines.add("cols", p.cols);
  lines.add("k", p.k);
  lines.add("row_stride", core::stride_of(p));
  if (core::element_stride_of(p) != 1) lines.add("element_stride", p.element_stride);
  if (p.group_rows != 0) {
    lines.add("group_rows", p.group_rows);
    lines.add("group_stride", p.group_stride);
  }
  lines.add("dtype", name(p.dtype));
  lines.add("direction", name(p.direction));
  lines.add("order", name(p.order));
  lines.add("form", name(p.form));
  if (p.form == Form::pairs || p.form == Form::cbsr) lines.add("index_type", name(p.index_type));
  if (p.max_iter != 0) {
    lines.add("max_iter", std::int64_t{p.max_iter});
    lines.add("rule", name(p.rule));
  }
  if (p.epsilon != 0.0) lines.add("epsilon", p.epsilon);
  lines.add("search", name(p.search));
  if (p.magnitude) lines.add("magnitude", "on");
  if (p.thresholds) lines.add("thresholds", "on");
  add_arrays(p, lines);
  lines.add("threads", std::int64_t{plan.threads});
  lines.add("rows_per_block", plan.rows_per_block);
  if (plan.candidate_capacity != 0) lines.add("candidate_capacity", plan.candidate_capacity);
  if (p.device.kind == DeviceKind::cpu && plan.parts != 0) lines.add("parts", plan.parts);
  if (p.device.kind == DeviceKind::cuda) {
    lines.add("lanes_per_row", std::int64_t{plan.lanes_per_row});
    if (plan.elements_per_lane != 0) lines.add("elements_per_lane", std::int64_t{plan.elements_per_lane});
    lines.add("blocks", plan.blocks);
    if (plan.parts != 0) lines.add("parts", plan.parts);
    lines.add("shared_bytes", plan.shared_bytes);
    if (plan.chunk_rows != 0) lines.add("chunk_rows", plan.chunk_rows);
  } else {
    lines.add("scratch_bytes", plan.scratch_bytes);
  }
  lines.add("workspace_bytes", plan.workspace_bytes);
  return std::move(lines).text();
}

}  // namespace rtopk
