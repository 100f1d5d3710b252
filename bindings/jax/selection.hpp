// What a call asks for: its buffers and attributes, checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include <xla/ffi/api/ffi.h>
#include <rtopk/rtopk.hpp>

namespace rtopk::jax_binding {

namespace ffi = xla::ffi;

/// The attributes of a call. Anyone can write a call, so that nothing is known of them.
struct Attributes {
  std::int64_t form = 0;       ///< As rtopk::Form: pairs, dense or mask.
  std::int64_t k = 0;          ///< 0 only for pairs, which are then empty.
  std::int64_t inner = 0;      ///< How many dimensions follow the one that is selected along.
  std::int64_t direction = 0;  ///< As rtopk::Direction.
  std::int64_t order = 0;      ///< As rtopk::Order.
  std::int64_t max_iter = 0;
  std::int64_t rule = 0;  ///< As rtopk::Rule.
  double epsilon = 0.0;
  std::int64_t search = 0;  ///< As rtopk::Search.
  // General rows. Their arrays are operands behind the first, in this order, of types as rtopk::ArrayType.
  std::int64_t lengths = 0;
  std::int64_t starts = 0;
  std::int64_t offsets = 0;  ///< Rows are segments of the operand, which has one dimension.
  std::int64_t row_k = 0;
  std::int64_t max_length = 0;  ///< Of a segment. 0: not known.
  std::int64_t magnitude = 0;   ///< 0 or 1.
  std::int64_t thresholds = 0;  ///< 0 or 1: with a third result, the kth value of each row.
};

/// A checked call. If the problem has no rows, there is nothing to do.
struct Selection {
  Problem problem;
  const void* input = nullptr;
  RowArrays arrays;
  Output output;
};

using Dimensions = ffi::AnyBuffer::Dimensions;

/// Checks the attributes for an operand of these sizes, and describes the problem. `segments`: how many there are, if
/// there are any.
ffi::Error read_problem(Dimensions sizes, std::int64_t segments, DType dtype, const Attributes& attributes,
                        Problem& problem);

/// The same with the buffers of a call, of whose results the first `count` are read. In memory the dimension that is
/// selected along comes last in the results, which python/rtopk/jax states as their layout.
ffi::Error read_call(const ffi::AnyBuffer& operand, const ffi::RemainingArgs& arrays, const ffi::RemainingRets& results,
                     std::size_t count, const Attributes& attributes, Selection& selection);

/// The error of a status.
ffi::Error error_of(const Status& status);

/// There is no memory for the workspace.
ffi::Error out_of_memory(std::size_t bytes);

}  // namespace rtopk::jax_binding

XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(
    rtopk::jax_binding::Attributes, xla::ffi::StructMember<std::int64_t>("form"),
    xla::ffi::StructMember<std::int64_t>("k"), xla::ffi::StructMember<std::int64_t>("inner"),
    xla::ffi::StructMember<std::int64_t>("direction"), xla::ffi::StructMember<std::int64_t>("order"),
    xla::ffi::StructMember<std::int64_t>("max_iter"), xla::ffi::StructMember<std::int64_t>("rule"),
    xla::ffi::StructMember<double>("epsilon"), xla::ffi::StructMember<std::int64_t>("search"),
    xla::ffi::StructMember<std::int64_t>("lengths"), xla::ffi::StructMember<std::int64_t>("starts"),
    xla::ffi::StructMember<std::int64_t>("offsets"), xla::ffi::StructMember<std::int64_t>("row_k"),
    xla::ffi::StructMember<std::int64_t>("max_length"), xla::ffi::StructMember<std::int64_t>("magnitude"),
    xla::ffi::StructMember<std::int64_t>("thresholds"));
