// Reads and checks buffers and attributes of calls.
#include "selection.hpp"

#include <limits>
#include <optional>
#include <string>

namespace rtopk::jax_binding {
namespace {

ffi::Error refuse(const std::string& text) { return ffi::Error::InvalidArgument("rtopk: " + text); }

std::optional<DType> element_type_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32: return DType::f32;
    case ffi::DataType::F16: return DType::f16;
    case ffi::DataType::BF16: return DType::bf16;
    case ffi::DataType::F64: return DType::f64;
    case ffi::DataType::S32: return DType::i32;
    default: return std::nullopt;
  }
}

/// An enumerator from its number.
template <class Enum>
ffi::Error read_enum(const char* name, std::int64_t number, Enum last, Enum& value) {
  if (number < 0 || number > static_cast<std::int64_t>(last)) {
    return refuse(std::string(name) + " is " + std::to_string(number) + "; accepted: 0 to " +
                  std::to_string(static_cast<std::int64_t>(last)));
  }
  value = static_cast<Enum>(number);
  return ffi::Error::Success();
}

/// The problem without its sizes.
ffi::Error read_attributes(const Attributes& attributes, Problem& problem) {
  for (const ffi::Error& error : {
           read_enum("form", attributes.form, Form::mask, problem.form),
           read_enum("direction", attributes.direction, Direction::smallest, problem.direction),
           read_enum("order", attributes.order, Order::by_index, problem.order),
           read_enum("rule", attributes.rule, Rule::printed, problem.rule),
           read_enum("search", attributes.search, Search::bisection, problem.search),
       }) {
    if (error.failure()) return error;
  }
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (attributes.max_iter < 0 || attributes.max_iter > kMax) {
    return refuse("max_iter is " + std::to_string(attributes.max_iter) + "; accepted: 0 to 10000");
  }
  problem.max_iter = static_cast<std::int32_t>(attributes.max_iter);
  problem.epsilon = attributes.epsilon;
  problem.k = attributes.k;
  problem.index_type = IndexType::i32;
  return ffi::Error::Success();
}

std::int64_t product(Dimensions sizes, std::size_t begin, std::size_t end) {
  std::int64_t count = 1;
  for (std::size_t i = begin; i < end; ++i) count *= sizes[i];
  return count;
}

/// Rows along the dimension `axis`.
void read_rows(Dimensions sizes, std::size_t axis, Problem& problem) {
  const std::int64_t inner = product(sizes, axis + 1, sizes.size());
  problem.cols = sizes[axis];
  problem.rows = product(sizes, 0, axis) * inner;
  if (inner == 1 || problem.rows == 0) return;
  problem.row_stride = 1;
  problem.element_stride = inner;
  if (problem.rows > inner) {
    problem.group_rows = inner;
    problem.group_stride = problem.cols * inner;
  }
}

std::size_t axis_of(Dimensions sizes, const Attributes& attributes) {
  return sizes.size() - 1 - static_cast<std::size_t>(attributes.inner);
}

/// The address of a result, which must have this type, and the operand's shape but for `size` along the axis.
ffi::Error read_result(const ffi::RemainingRets& results, std::size_t number, ffi::DataType type, Dimensions operand,
                       std::size_t axis, std::int64_t size, void*& data) {
  auto result = results.get<ffi::AnyBuffer>(number);
  if (result.has_error()) return result.error();
  const Dimensions sizes = (*result)->dimensions();
  bool same = sizes.size() == operand.size() && (*result)->element_type() == type;
  for (std::size_t i = 0; same && i < sizes.size(); ++i) same = sizes[i] == (i == axis ? size : operand[i]);
  if (!same) {
    return refuse("result " + std::to_string(number) +
                  " has another type or shape than the operand and the attributes form, k and inner ask for");
  }
  data = (*result)->untyped_data();
  return ffi::Error::Success();
}

}  // namespace

ffi::Error error_of(const Status& status) {
  if (status.ok()) return ffi::Error::Success();
  const std::string text = std::string("rtopk: ") + status.text();
  switch (status.code()) {
    case StatusCode::invalid_argument: return {ffi::ErrorCode::kInvalidArgument, text};
    case StatusCode::not_supported: return {ffi::ErrorCode::kUnimplemented, text};
    default: return {ffi::ErrorCode::kInternal, text};
  }
}

ffi::Error out_of_memory(std::size_t bytes) {
  return {ffi::ErrorCode::kResourceExhausted,
          "rtopk: no memory for a workspace of " + std::to_string(bytes) + " bytes"};
}

ffi::Error read_problem(Dimensions sizes, DType dtype, const Attributes& attributes, Problem& problem) {
  if (ffi::Error error = read_attributes(attributes, problem); error.failure()) return error;
  problem.dtype = dtype;
  const auto rank = static_cast<std::int64_t>(sizes.size());
  if (attributes.inner < 0 || attributes.inner >= rank) {
    return refuse("inner is " + std::to_string(attributes.inner) + " for an operand with " + std::to_string(rank) +
                  " dimensions; accepted: 0 to one less than there are dimensions");
  }
  read_rows(sizes, axis_of(sizes, attributes), problem);
  const std::int64_t least = problem.form == Form::pairs ? 0 : 1;
  if (problem.k < least || problem.k > problem.cols) {
    return refuse("k is " + std::to_string(problem.k) + "; accepted: " + std::to_string(least) + " to " +
                  std::to_string(problem.cols) + ", the size along the axis");
  }
  if (problem.k == 0) problem.rows = 0;
  return ffi::Error::Success();
}

ffi::Error read_call(const ffi::AnyBuffer& operand, const ffi::RemainingRets& results, std::size_t count,
                     const Attributes& attributes, Selection& selection) {
  Problem& problem = selection.problem;
  const Dimensions sizes = operand.dimensions();
  const std::optional<DType> dtype = element_type_of(operand.element_type());
  if (!dtype) return refuse("the operand's type is not supported; accepted: F32, F16, BF16, F64, S32");
  if (ffi::Error error = read_problem(sizes, *dtype, attributes, problem); error.failure()) return error;
  selection.input = operand.untyped_data();

  const std::size_t expected = problem.form == Form::pairs ? 2 : 1;
  if (count != expected) {
    return refuse("there are " + std::to_string(count) + " results; accepted: " + std::to_string(expected));
  }
  const std::size_t axis = axis_of(sizes, attributes);
  Output& output = selection.output;
  switch (problem.form) {
    case Form::dense: return read_result(results, 0, operand.element_type(), sizes, axis, problem.cols, output.dense);
    case Form::mask: {
      void* mask = nullptr;
      ffi::Error error = read_result(results, 0, ffi::DataType::PRED, sizes, axis, problem.cols, mask);
      output.mask = static_cast<std::uint8_t*>(mask);
      return error;
    }
    default: {
      ffi::Error error = read_result(results, 0, operand.element_type(), sizes, axis, problem.k, output.values);
      if (error.failure()) return error;
      return read_result(results, 1, ffi::DataType::S32, sizes, axis, problem.k, output.indices);
    }
  }
}

}  // namespace rtopk::jax_binding
