// What this library exports: a handler for each kind of call, which python/rtopk/jax registers with JAX, and what it
// needs to know when it writes such a call.
#pragma once

#include <cstdint>

#include "selection.hpp"

#define RTOPK_JAX_API extern "C" [[gnu::visibility("default")]]

/// On the CPU, with the library's own threads.
RTOPK_JAX_API XLA_FFI_Error* rtopk_jax_cpu(XLA_FFI_CallFrame* call_frame);

/// On a GPU, with workspace from XLA's allocator. It serves calls of any size, but cannot be part of a CUDA graph: the
/// memory is another's when the graph is launched again.
RTOPK_JAX_API XLA_FFI_Error* rtopk_jax_cuda(XLA_FFI_CallFrame* call_frame);

/// On a GPU, with the last result as workspace. It can be part of a CUDA graph.
RTOPK_JAX_API XLA_FFI_Error* rtopk_jax_cuda_capturable(XLA_FFI_CallFrame* call_frame);

/// The workspace that a call needs on any GPU of this machine, or -1 if there is none, or none can run it. `dtype` is an
/// rtopk::DType; `segments` counts, if there are offsets.
RTOPK_JAX_API std::int64_t rtopk_jax_workspace_bytes(const rtopk::jax_binding::Attributes* attributes,
                                                     std::int64_t dtype, const std::int64_t* sizes, std::int64_t rank,
                                                     std::int64_t segments);

/// 1 if the library has its CUDA backend.
RTOPK_JAX_API std::int32_t rtopk_jax_has_cuda();

/// The minor version of XLA's interface that the handlers were built for.
RTOPK_JAX_API std::int32_t rtopk_jax_interface();
