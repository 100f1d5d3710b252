// The call that nearly every caller makes, in as few steps as it takes: a selection that torch.topk can ask for too, of a
// contiguous CPU tensor, along its last dimension. Small ones cost little more than what leads to them.
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

/// Whether the call was a usual one that `is_wanted`; if so, `results` are the caller's to release. Nothing was done if not, and
/// what is wrong with it, if anything is, others will say. Throws where memory runs out.
bool usual_topk(const TopkCall& call, TopkHandles& results, bool (*is_wanted)(const Problem&) = nullptr);

}  // namespace rtopk::torch_binding
