// Reads and checks buffers and attributes of calls.
#include "selection.hpp"

#include <limits>
#include <optional>
#include <string>

#include "common/row_layout.hpp"

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

ffi::Error read_flag(const char* name, std::int64_t number, bool& value) {
  if (number != 0 && number != 1) {
    return refuse(std::string(name) + " is " + std::to_string(number) + "; accepted: 0 or 1");
  }
  value = number == 1;
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
           read_enum("lengths", attributes.lengths, ArrayType::i64, problem.ragged.lengths),
           read_enum("starts", attributes.starts, ArrayType::i64, problem.ragged.starts),
           read_enum("offsets", attributes.offsets, ArrayType::i64, problem.ragged.offsets),
           read_enum("row_k", attributes.row_k, ArrayType::i64, problem.ragged.k),
           read_flag("magnitude", attributes.magnitude, problem.magnitude),
           read_flag("thresholds", attributes.thresholds, problem.thresholds),
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

/// The dimensions of the results: those of the operand without the axis, or that of the segments.
struct RowDimensions {
  Dimensions operand;
  std::size_t axis;
  std::int64_t segments;  ///< -1: none.

  /// Whether a buffer has one element for each row; with `size`, so many along the axis.
  bool fit(Dimensions sizes, std::optional<std::int64_t> size = std::nullopt) const {
    if (segments >= 0) {
      return sizes.size() == (size ? 2 : 1) && sizes[0] == segments && (!size || sizes[1] == *size);
    }
    if (sizes.size() + (size ? 0 : 1) != operand.size()) return false;
    for (std::size_t i = 0, at = 0; i < operand.size(); ++i) {
      if (i == axis && !size) continue;
      if (sizes[at++] != (i == axis ? *size : operand[i])) return false;
    }
    return true;
  }
};

/// The address of a result, which must have this type, and `size` elements for each row, or one without `size`.
ffi::Error read_result(const ffi::RemainingRets& results, std::size_t number, ffi::DataType type,
                       const RowDimensions& rows, std::optional<std::int64_t> size, void*& data) {
  auto result = results.get<ffi::AnyBuffer>(number);
  if (result.has_error()) return result.error();
  if (!rows.fit((*result)->dimensions(), size) || (*result)->element_type() != type) {
    return refuse("result " + std::to_string(number) +
                  " has another type or shape than the operand and the attributes form, k and inner ask for");
  }
  data = (*result)->untyped_data();
  return ffi::Error::Success();
}

bool has_type(const ffi::AnyBuffer& buffer, ArrayType type) {
  return buffer.element_type() == (type == ArrayType::i32 ? ffi::DataType::S32 : ffi::DataType::S64);
}

/// How many segments there are, by the operand with the offsets. -1: there are no offsets.
ffi::Error read_segments(const ffi::RemainingArgs& arrays, const Attributes& attributes, std::int64_t& segments) {
  segments = -1;
  if (attributes.offsets == 0) return ffi::Error::Success();
  auto offsets = arrays.get<ffi::AnyBuffer>((attributes.lengths != 0) + (attributes.starts != 0));
  if (offsets.has_error()) return offsets.error();
  if (offsets->dimensions().size() != 1 || offsets->dimensions()[0] < 1) {
    return refuse("offsets has another shape; accepted: one dimension, with a number for each segment and one more");
  }
  segments = offsets->dimensions()[0] - 1;
  return ffi::Error::Success();
}

/// The operands behind the first.
ffi::Error read_arrays(const ffi::RemainingArgs& arrays, const Ragged& ragged, const RowDimensions& rows,
                       RowArrays& addresses) {
  const struct {
    const char* name;
    ArrayType type;
    const void*& address;
  } all[] = {{"lengths", ragged.lengths, addresses.lengths},
             {"starts", ragged.starts, addresses.starts},
             {"offsets", ragged.offsets, addresses.offsets},
             {"row_k", ragged.k, addresses.k}};
  std::size_t number = 0;
  for (const auto& [name, type, address] : all) {
    if (type == ArrayType::none) continue;
    auto array = arrays.get<ffi::AnyBuffer>(number++);
    if (array.has_error()) return array.error();
    const bool fits = &address == &addresses.offsets || rows.fit(array->dimensions());
    if (!fits || !has_type(*array, type)) {
      return refuse(std::string(name) + " has another type or shape than the operand and its attribute ask for");
    }
    address = array->untyped_data();
  }
  if (number != arrays.size()) {
    return refuse("there are " + std::to_string(arrays.size()) +
                  " arrays of rows; accepted: " + std::to_string(number) + ", as the attributes say");
  }
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

ffi::Error read_problem(Dimensions sizes, std::int64_t segments, DType dtype, const Attributes& attributes,
                        Problem& problem) {
  if (ffi::Error error = read_attributes(attributes, problem); error.failure()) return error;
  problem.dtype = dtype;
  const auto rank = static_cast<std::int64_t>(sizes.size());
  if (attributes.inner < 0 || attributes.inner >= rank) {
    return refuse("inner is " + std::to_string(attributes.inner) + " for an operand with " + std::to_string(rank) +
                  " dimensions; accepted: 0 to one less than there are dimensions");
  }
  const bool flat = problem.ragged.offsets != ArrayType::none;
  if (flat && (rank != 1 || segments < 0 || attributes.max_length < 0)) {
    return refuse("offsets are given for an operand with " + std::to_string(rank) + " dimensions and a max_length of " +
                  std::to_string(attributes.max_length) + "; accepted: 1 dimension, 0 or more");
  }
  read_rows(sizes, axis_of(sizes, attributes), problem);
  const std::int64_t least = problem.form == Form::pairs && !problem.thresholds ? 0 : 1;
  const std::int64_t most = flat ? std::numeric_limits<std::int32_t>::max() : problem.cols;
  if (problem.k < least || problem.k > most) {
    return refuse("k is " + std::to_string(problem.k) + "; accepted: " + std::to_string(least) + " to " +
                  std::to_string(most) + (flat ? "" : ", the size along the axis"));
  }
  if (flat) bindings::set_segments(segments, problem.cols, attributes.max_length, problem);
  if (problem.k == 0) problem.rows = 0;
  return ffi::Error::Success();
}

ffi::Error read_call(const ffi::AnyBuffer& operand, const ffi::RemainingArgs& arrays, const ffi::RemainingRets& results,
                     std::size_t count, const Attributes& attributes, Selection& selection) {
  Problem& problem = selection.problem;
  const Dimensions sizes = operand.dimensions();
  const std::optional<DType> dtype = element_type_of(operand.element_type());
  if (!dtype) return refuse("the operand's type is not supported; accepted: F32, F16, BF16, F64, S32");
  std::int64_t segments = -1;
  if (ffi::Error error = read_segments(arrays, attributes, segments); error.failure()) return error;
  if (ffi::Error error = read_problem(sizes, segments, *dtype, attributes, problem); error.failure()) return error;
  selection.input = operand.untyped_data();
  const RowDimensions rows{sizes, axis_of(sizes, attributes), segments};
  if (ffi::Error error = read_arrays(arrays, problem.ragged, rows, selection.arrays); error.failure()) return error;

  const std::size_t expected = problem.form != Form::pairs ? 1 : problem.thresholds ? 3 : 2;
  if (count != expected) {
    return refuse("there are " + std::to_string(count) + " results; accepted: " + std::to_string(expected));
  }
  const ffi::DataType type = operand.element_type();
  Output& output = selection.output;
  switch (problem.form) {
    case Form::dense: return read_result(results, 0, type, rows, problem.cols, output.dense);
    case Form::mask: {
      void* mask = nullptr;
      ffi::Error error = read_result(results, 0, ffi::DataType::PRED, rows, problem.cols, mask);
      output.mask = static_cast<std::uint8_t*>(mask);
      return error;
    }
    default: {
      ffi::Error error = read_result(results, 0, type, rows, problem.k, output.values);
      if (error.success()) error = read_result(results, 1, ffi::DataType::S32, rows, problem.k, output.indices);
      if (error.failure() || !problem.thresholds) return error;
      return read_result(results, 2, type, rows, std::nullopt, output.thresholds);
    }
  }
}

}  // namespace rtopk::jax_binding
