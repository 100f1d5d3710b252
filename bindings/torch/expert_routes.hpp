// The operator of expert routing. (routing.hpp is about calls of torch.topk.)
#pragma once

#include <cstdint>
#include <tuple>

#include "rows.hpp"

namespace rtopk::torch_binding {

/// Weights (float32) and expert ids (int32) of every row of logits along the last dimension.
std::tuple<Tensor, Tensor> expert_routes(const Tensor& logits, const MaybeTensor& bias, std::int64_t k,
                                         std::int64_t score, std::int64_t groups, std::int64_t group_k,
                                         bool renormalize, double scale);

}  // namespace rtopk::torch_binding
