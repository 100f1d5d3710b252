// torch.topk by rtopk: a kernel of aten::topk that stands in the place of torch's while it is wanted. rtopk.accelerate().
#pragma once

#include <cstdint>

#include <torch/csrc/stable/library.h>

namespace rtopk::torch_binding {

/// Boxed: aten::topk, by rtopk, whoever calls it with whatever.
void boxed_topk(StableIValue* stack, std::uint64_t arguments, std::uint64_t results);

/// The same with a tensor and k alone: the largest of the last dimension, sorted.
void boxed_topk_of_last(StableIValue* stack, std::uint64_t arguments, std::uint64_t results);

/// Selects nothing, whatever the tensor and what follows it are: both results are undefined tensors, None in Python.
void boxed_no_topk(StableIValue* stack, std::uint64_t arguments, std::uint64_t results);

/// Puts the kernel in place for tensors of a device, or takes it away, and says whether it hands calls to rtopk. Where it is
/// in place and does not, it calls torch's. Not to be called while another thread may be calling torch.topk, unless
/// nothing is taken away that is in place.
void route_topk(bool cpu, bool cuda, bool on);

/// How many calls that came to the kernel on this thread were handed to rtopk.
std::int64_t routed_calls();

}  // namespace rtopk::torch_binding
