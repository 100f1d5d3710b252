// Fast path of the usual call: a selection that torch.topk supports too, from a contiguous CPU tensor along its last
// dimension. It takes as few steps as possible, because they dominate the time of small calls.
#pragma once

#include <cstdint>

#include <torch/csrc/stable/library.h>

#include <rtopk/select.hpp>

namespace rtopk::torch_binding {

struct TopkCall {
  AtenTensorHandle self;
  std::int64_t k;
  std::int64_t dim;
  bool largest;
  bool sorted;
};

struct TopkHandles {
  AtenTensorHandle values;
  AtenTensorHandle indices;
};

/// Returns true if the call is a usual one, `is_wanted`, and was executed; then the caller must release `results`.
/// Otherwise nothing was done, and nothing was checked: another path reports errors. Throws if out of memory.
bool usual_topk(const TopkCall& call, TopkHandles& results, bool (*is_wanted)(const Problem&) = nullptr);

}  // namespace rtopk::torch_binding
