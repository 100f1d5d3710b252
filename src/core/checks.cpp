// Argument checks of selections, and the helpers that all checks share.
#include "core/checks.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <limits>

#include "core/regions.hpp"
#include "core/row_checks.hpp"
#include "core/rows.hpp"
#include "core/sizes.hpp"

namespace rtopk::core {
namespace {

constexpr std::int32_t kMaxIterations = 10000;
constexpr std::int64_t kMaxCbsrColumns = 65536;

long long printable(std::int64_t value) { return value; }

/// Wide enough for a sum of products of two sizes.
__extension__ using Wide = __int128;

/// True if a matrix with this many elements has a size in bytes that fits in 63 bits. The widest element of any input
/// or output has 8 bytes.
bool bytes_fit(Wide elements) { return elements <= std::numeric_limits<std::int64_t>::max() / 8; }

Status check_enumerators(const Problem& p) {
  if (size_of(p.dtype) == 0) return invalid("dtype", static_cast<int>(p.dtype), "f32, f16, bf16, f64 or i32");
  if (p.direction > Direction::smallest) {
    return invalid("direction", static_cast<int>(p.direction), "largest or smallest");
  }
  if (p.order > Order::by_index) return invalid("order", static_cast<int>(p.order), "unsorted, by_value or by_index");
  if (p.form > Form::cbsr) return invalid("form", static_cast<int>(p.form), "pairs, dense, mask or cbsr");
  if (size_of(p.index_type) == 0) return invalid("index_type", static_cast<int>(p.index_type), "i32, i64, u8 or u16");
  if (p.rule > Rule::printed) return invalid("rule", static_cast<int>(p.rule), "threshold_first or printed");
  if (p.search > Search::bisection) return invalid("search", static_cast<int>(p.search), "fast or bisection");
  return {};
}

/// Checks that the sizes of input and output are possible in memory. Sizes and strides must not be negative.
__attribute__((no_sanitize("undefined"))) Status check_span(const Problem& p) {
  Problem some = p;
  some.rows = std::max(p.rows, std::int64_t{1});  // strides are checked even if there are no rows
  if (bytes_fit(Wide{some.rows} * p.cols) && (is_flat(p) || bytes_fit(span_of<Wide>(some, true)))) return {};
  if (elements_are_adjacent(p) && p.group_rows == 0) {
    return status(StatusCode::invalid_argument,
                  "rows is %lld and the row stride %lld; accepted: at most 2^63 bytes of matrix", printable(p.rows),
                  printable(stride_of(p)));
  }
  return status(
      StatusCode::invalid_argument,
      "rows is %lld, cols %lld, element_stride %lld and group_stride %lld; accepted: at most 2^63 bytes of matrix",
      printable(p.rows), printable(p.cols), printable(p.element_stride), printable(p.group_stride));
}

Status check_sizes(const Problem& p) {
  if (p.rows < 0) return invalid("rows", p.rows, "0 or more");
  if (p.cols < 1) return invalid("cols", p.cols, "1 or more");
  if (p.k < 1 || p.k > p.cols) {
    return status(StatusCode::invalid_argument, "k is %lld; accepted: 1 to cols, which is %lld", printable(p.k),
                  printable(p.cols));
  }
  if (p.element_stride < 0) return invalid("element_stride", p.element_stride, "0 (contiguous) or more");
  const std::int64_t least_stride = elements_are_adjacent(p) ? p.cols : 1;
  if (p.row_stride != 0 && p.row_stride < least_stride) {
    return status(StatusCode::invalid_argument,
                  "row_stride is %lld; accepted: 0 (no gaps) or at least %s, which is %lld", printable(p.row_stride),
                  elements_are_adjacent(p) ? "cols" : "one element", printable(least_stride));
  }
  if (p.group_rows < 0) return invalid("group_rows", p.group_rows, "0 (all rows are one group) or more");
  if (p.group_stride < 0) return invalid("group_stride", p.group_stride, "0 or more");
  if (p.group_rows == 0 && p.group_stride != 0) {
    return status(StatusCode::invalid_argument, "group_stride is %lld and group_rows 0; accepted: group_rows 1 or more",
                  printable(p.group_stride));
  }
  return check_span(p);
}

Status check_form(const Problem& p) {
  const bool narrow = p.index_type == IndexType::u8 || p.index_type == IndexType::u16;
  if (p.form == Form::pairs) {
    if (!p.values && !p.indices) {
      return status(StatusCode::invalid_argument, "values and indices are both off; accepted: at least one of them");
    }
    if (p.indices && narrow) {
      return status(StatusCode::invalid_argument, "index_type is %s; accepted for form pairs: i32 or i64",
                    name(p.index_type));
    }
    if (p.indices && p.index_type == IndexType::i32 && p.cols - 1 > std::numeric_limits<std::int32_t>::max()) {
      return status(StatusCode::invalid_argument, "index_type is i32 and cols %lld; accepted: i64 above 2^31 columns",
                    printable(p.cols));
    }
  }
  if (p.form == Form::cbsr) {
    if (p.cols > kMaxCbsrColumns) return invalid("cols", p.cols, "at most 65536 for form cbsr");
    if (!narrow) {
      return status(StatusCode::invalid_argument,
                    "index_type is %s; accepted for form cbsr: u8 (up to 256 columns) or u16", name(p.index_type));
    }
    if (p.index_type == IndexType::u8 && p.cols > 256) {
      return status(StatusCode::invalid_argument, "index_type is u8 and cols %lld; accepted: u16 above 256 columns",
                    printable(p.cols));
    }
  }
  if ((p.form == Form::dense || p.form == Form::mask) && p.order == Order::by_value) {
    return status(StatusCode::invalid_argument, "order is by_value; accepted for form %s: unsorted or by_index",
                  name(p.form));
  }
  return {};
}

Status check_limits(const Problem& p) {
  if (p.max_iter < 0 || p.max_iter > kMaxIterations) return invalid("max_iter", p.max_iter, "0 (none) to 10000");
  if (!(p.epsilon >= 0.0 && p.epsilon <= 1.0)) {
    return status(StatusCode::invalid_argument, "epsilon is %g; accepted: 0 (exact) to 1", p.epsilon);
  }
  if (p.max_iter != 0 && p.epsilon != 0.0) {
    return status(StatusCode::invalid_argument, "max_iter is %d and epsilon %g; accepted: one of them, the other 0",
                  p.max_iter, p.epsilon);
  }
  return {};
}

}  // namespace

Status invalid(const char* argument, std::int64_t value, const char* accepted) noexcept {
  return status(StatusCode::invalid_argument, "%s is %lld; accepted: %s", argument, printable(value), accepted);
}

Status check_traits(const Traits& traits, const Device& device) noexcept {
  if (traits.device != device) {
    return {StatusCode::invalid_argument, "traits.device differs from problem.device; accepted: traits of that device"};
  }
  if (device.kind == DeviceKind::cpu && traits.threads < 1) {
    return invalid("traits.threads", traits.threads, "1 or more");
  }
  return {};
}

Status check_device(const Device& device) noexcept {
  if (device.kind > DeviceKind::cuda) return invalid("device.kind", static_cast<int>(device.kind), "cpu or cuda");
  if (device.kind == DeviceKind::cpu && device.ordinal != 0) {
    return invalid("device.ordinal", device.ordinal, "0 for the CPU");
  }
  if (device.ordinal < 0) return invalid("device.ordinal", device.ordinal, "0 or more");
  return {};
}

Status check_gpu(const Device& device, const char* what) noexcept {
  if (device.kind == DeviceKind::cuda) return check_device(device);
  return status(StatusCode::not_supported, "device is not a GPU; accepted for %s: a GPU", what);
}

Status check_selectors(std::int64_t k, std::int64_t cols, IndexType selector_type) noexcept {
  if (k < 1 || k > cols) {
    return status(StatusCode::invalid_argument, "k is %lld; accepted: 1 to cols, which is %lld", printable(k),
                  printable(cols));
  }
  if (selector_type != IndexType::u8 && selector_type != IndexType::u16) {
    return status(StatusCode::invalid_argument, "selector_type is %s; accepted: u8 or u16", name(selector_type));
  }
  if (selector_type == IndexType::u8 && cols > 256) {
    return status(StatusCode::invalid_argument, "selector_type is u8 and cols %lld; accepted: u16 above 256 columns",
                  printable(cols));
  }
  return {};
}

Status status(StatusCode code, const char* format, ...) noexcept {
  char text[sizeof(Status)];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return {code, text};
}

Status check_problem(const Problem& problem) noexcept {
  for (const auto check : {check_enumerators, check_sizes, check_form, check_limits}) {
    if (Status result = check(problem); !result.ok()) return result;
  }
  if (Status result = check_rows(problem); !result.ok()) return result;
  return check_device(problem.device);
}

Status check_workspace(const Problem& problem, std::size_t bytes) noexcept {
  if (bytes <= kMaxBytes) return {};
  return status(StatusCode::invalid_argument,
                "cols is %lld and k %lld; accepted: rows whose workspace has less than 2^63 bytes",
                printable(problem.cols), printable(problem.k));
}

Status check_launch(const Launch& launch) noexcept {
  if (launch.executor == nullptr || launch.executor->parallel_for != nullptr) return {};
  return {StatusCode::invalid_argument, "launch.executor->parallel_for is null; accepted: a function"};
}

Status check_call(const Plan& plan, const void* input, const RowArrays& arrays, const Output& output,
                  Workspace workspace) noexcept {
  const Problem& p = plan.problem;
  const std::size_t element = size_of(p.dtype);
  Regions regions;
  regions.read("input", input, is_flat(p) ? p.ragged.elements : span_of<std::int64_t>(p, false), element);
  add_arrays(p, arrays, regions);
  if (writes_values(p)) regions.write("output.values", output.values, p.rows * p.k, element);
  if (writes_indices(p)) regions.write("output.indices", output.indices, p.rows * p.k, size_of(p.index_type));
  if (p.form == Form::dense) regions.write("output.dense", output.dense, p.rows * p.cols, element);
  if (p.form == Form::mask) regions.write("output.mask", output.mask, p.rows * p.cols, 1);
  if (p.passes) regions.write("output.passes", output.passes, p.rows, 4);
  if (p.thresholds) regions.write("output.thresholds", output.thresholds, p.rows, element);
  return regions.check(workspace, plan.workspace_bytes);
}

}  // namespace rtopk::core
