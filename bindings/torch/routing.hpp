// Routes torch.topk to rtopk: a kernel of aten::topk that replaces torch's own. Used by rtopk.accelerate().
#pragma once

#include <cstdint>

#include <torch/csrc/stable/library.h>

namespace rtopk::torch_binding {

/// Boxed kernel: aten::topk by rtopk, for every caller and all arguments.
void boxed_topk(StableIValue* stack, std::uint64_t arguments, std::uint64_t results);

/// The same with only a tensor and k: the largest elements along the last dimension, sorted.
void boxed_topk_of_last(StableIValue* stack, std::uint64_t arguments, std::uint64_t results);

/// Boxed kernel that selects nothing, whatever its arguments: both results are undefined tensors, None in Python.
void boxed_no_topk(StableIValue* stack, std::uint64_t arguments, std::uint64_t results);

/// Installs the kernel for tensors of a device, or removes it, and sets whether it routes calls to rtopk. An installed
/// kernel that does not route calls torch's. Removing is not safe while another thread may be calling torch.topk.
void route_topk(bool cpu, bool cuda, bool on);

/// Number of calls on this thread that the kernel routed to rtopk.
std::int64_t routed_calls();

}  // namespace rtopk::torch_binding
