// From an array to its results.
#include "selection.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "common/cpu_workspace.hpp"
#include "common/gpu_traits.hpp"
#include "common/row_layout.hpp"
#include "errors.hpp"
#include "general_rows.hpp"
#include "nan_rows.hpp"

namespace rtopk::python_binding {
namespace {

namespace nb = nanobind;

/// The axis counted from 0.
std::int64_t wrapped_axis(const Shape& shape, std::int64_t axis) {
  if (shape.dims == 0) refuse(PyExc_ValueError, "a has 0 dimensions; accepted: 1 or more");
  if (axis < -shape.dims || axis >= shape.dims) {
    refuse(PyExc_ValueError, "axis is " + std::to_string(axis) + "; accepted: " + std::to_string(-shape.dims) + " to " +
                                 std::to_string(shape.dims - 1) + ", since a has " + std::to_string(shape.dims) +
                                 (shape.dims == 1 ? " dimension" : " dimensions"));
  }
  return axis < 0 ? axis + shape.dims : axis;
}

/// Rows of an array, and the copy of them where they cannot be read as they lie.
struct Rows {
  const void* data = nullptr;
  bindings::RowLayout layout;
  std::unique_ptr<std::byte[]> copy;
};

/// Copies elements of `Size` bytes side by side, in the order of the shape.
template <std::size_t Size>
void copy_elements(const Array& array, const Shape& shape, const std::int64_t* strides, std::byte* to) {
  const std::int64_t last = shape.dims - 1;
  std::int64_t at[kMaxDims] = {};
  const std::byte* from = array.data;
  for (;;) {
    for (std::int64_t i = 0; i < shape.each[last]; ++i, to += Size) {
      std::memcpy(to, from + i * strides[last], Size);
      if (array.swapped) std::reverse(to, to + Size);
    }
    std::int64_t dim = last;
    while (dim-- > 0) {
      from += strides[dim];
      if (++at[dim] < shape.each[dim]) break;
      from -= strides[dim] * shape.each[dim];
      at[dim] = 0;
    }
    if (dim < 0) return;
  }
}

/// The rows along `axis`. `adjacent`: elements of a row side by side, and one stride from row to row. False: they are on
/// a GPU, and cannot be read as they lie. No size is 0.
bool find_rows(const Array& array, std::int64_t axis, bool adjacent, Rows& rows) {
  const Shape shape = with_last(array.shape, axis);
  std::int64_t bytes[kMaxDims], elements[kMaxDims];
  const auto item = static_cast<std::int64_t>(size_of(array.dtype));
  bool whole = !array.swapped && reinterpret_cast<std::uintptr_t>(array.data) % size_of(array.dtype) == 0;
  for (std::int64_t i = 0, to = 0; i < array.shape.dims; ++i) {
    const std::int64_t place = i == axis ? array.shape.dims - 1 : to++;
    bytes[place] = array.strides[i];
    elements[place] = array.strides[i] / item;
    whole = whole && (array.strides[i] % item == 0 || array.shape.each[i] == 1);
  }
  rows.data = array.data;
  if (whole && bindings::describe_rows(shape.each, elements, static_cast<std::size_t>(shape.dims), rows.layout) &&
      !(adjacent && (rows.layout.element_stride != 1 || rows.layout.group_rows != 0))) {
    return true;
  }
  if (array.device.kind == DeviceKind::cuda) return false;
  std::int64_t total = 1;
  for (std::int64_t i = 0; i < shape.dims; ++i) {
    if (__builtin_mul_overflow(total, shape.each[i], &total)) throw std::bad_alloc();
  }
  const std::int64_t cols = shape.each[shape.dims - 1];
  rows.layout = {.rows = total / cols, .cols = cols, .row_stride = cols};
  std::int64_t total_bytes = 0;
  if (__builtin_mul_overflow(total, item, &total_bytes)) throw std::bad_alloc();
  rows.copy = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(total_bytes));
  rows.data = rows.copy.get();
  const nb::gil_scoped_release others_run;
  switch (item) {
    case 2: copy_elements<2>(array, shape, bytes, rows.copy.get()); break;
    case 4: copy_elements<4>(array, shape, bytes, rows.copy.get()); break;
    default: copy_elements<8>(array, shape, bytes, rows.copy.get()); break;
  }
  return true;
}

ResultType index_result(IndexType type) {
  switch (type) {
    case IndexType::i64: return ResultType::i64;
    case IndexType::i32: return ResultType::i32;
    case IndexType::u16: return ResultType::u16;
    case IndexType::u8: break;
  }
  return ResultType::u8;
}

/// Up to so many elements one thread is faster, and to ask for the number of CPUs takes a tenth of a small call.
constexpr std::int64_t kSmallElements = 8192;

Traits traits_of(const Device& device, std::int32_t threads) {
  Traits traits;
  if (device.kind == DeviceKind::cuda) {
    const Status status = bindings::traits_of_gpu(device.ordinal, traits);
    if (status.code() == StatusCode::not_supported) {
      refuse(PyExc_NotImplementedError, std::string(status.text()) + ". Arrays in host memory work");
    }
    check(status);
  } else if (threads > 0) {
    traits.threads = threads;
  } else {
    check(query_traits(device, traits));
  }
  return traits;
}

void run_on_cpu(const Problem& problem, const Options& options, const void* input, const RowArrays& arrays,
                const Output& output) {
  const bool small = problem.cols <= kSmallElements && problem.rows <= kSmallElements / problem.cols;
  const Traits traits = traits_of(problem.device, small ? 1 : options.threads);
  const bool nan_last = options.nan_last && problem.direction == Direction::largest;
  Status status;
  {
    const nb::gil_scoped_release others_run;
    Plan plan;
    status = make_plan(problem, traits, plan);
    if (status.ok()) {
      const bindings::CpuWorkspace workspace(plan.workspace_bytes);
      status = run(plan, input, output, workspace.get(), {}, arrays);
    }
    if (status.ok() && nan_last) status = put_nan_last(plan, input, output, traits);
  }
  check(status);
}

void run_on_gpu(const Problem& problem, const void* input, const RowArrays& arrays, const Output& output,
                Allocator& allocator, void* stream) {
  Plan plan;
  check(make_plan(problem, traits_of(problem.device, 0), plan));
  Result
      memory;  // freed on return, before the kernels have run: the array's library reuses it on the same stream alone
  if (plan.workspace_bytes > 0) memory = allocator.workspace(plan.workspace_bytes);
  Status status;
  {
    const nb::gil_scoped_release others_run;
    status = run(plan, input, output, {memory.data, plan.workspace_bytes}, {.stream = stream}, arrays);
  }
  check(status);
}

}  // namespace

nb::object select(const Array& array, const Options& options, Allocator& allocator, void* stream) {
  const std::int64_t axis = wrapped_axis(array.shape, options.axis);
  Problem problem = options.problem;
  const std::int64_t cols = array.shape.each[axis];
  GeneralRows general;
  if (options.rows.is_valid()) general = read_general_rows(options.rows, array.shape, axis, problem);
  if (problem.k < 0 || (problem.k > cols && !general.takes_any_k)) {
    refuse(PyExc_ValueError, "k is " + std::to_string(problem.k) + "; accepted: 0 " +
                                 (general.takes_any_k ? "or more"
                                                      : "to " + std::to_string(cols) + ", the length of axis " +
                                                            std::to_string(options.axis)));
  }
  if (array.device.kind == DeviceKind::cuda && options.threads != 0) {
    refuse(PyExc_ValueError,
           "threads is " + std::to_string(options.threads) + "; accepted for an array on a GPU: None");
  }
  problem.dtype = array.dtype;
  problem.device = array.device;
  const bool whole = problem.form == Form::dense || problem.form == Form::mask;
  if (whole || problem.form == Form::cbsr) problem.order = Order::unsorted;
  if (problem.form == Form::cbsr) {
    if (cols > 65536) {
      refuse(PyExc_ValueError, "axis " + std::to_string(options.axis) + " has length " + std::to_string(cols) +
                                   "; accepted for compact results: at most 65536");
    }
    problem.index_type = selector_type(cols);
    problem.order = Order::by_index;
  }

  const bool segments = general.segments >= 0;
  if (!segments) problem.k = std::min(problem.k, cols);
  const std::int64_t* const sizes = array.shape.each;
  const bool empty = std::find(sizes, sizes + array.shape.dims, 0) != sizes + array.shape.dims;
  const bool nothing = problem.k == 0 || (segments ? general.segments == 0 : empty);
  Rows rows;
  rows.data = array.data;
  if (!nothing && !empty && !find_rows(array, axis, general.takes_any_k, rows)) return nb::none();
  bindings::set_layout(rows.layout, problem);
  if (segments) bindings::set_segments(general.segments, cols, general.max_length, problem);

  Shape shape = array.shape;
  if (!whole) shape.each[axis] = problem.k;
  if (segments) shape = {.dims = 2, .each = {general.segments, problem.k}};
  const std::int64_t along = segments ? 1 : axis;
  Result first, second, third;
  if (whole) {
    first =
        allocator.make(shape, along, problem.form == Form::mask ? ResultType::boolean : ResultType::elements, nothing);
  } else {
    first = allocator.make(shape, along, ResultType::elements, false);
    second = allocator.make(shape, along, index_result(problem.index_type), false);
  }
  if (problem.thresholds) {
    const Shape each = without(shape, along);
    third = allocator.make(each, each.dims - 1, ResultType::elements, false);
  }
  if (!nothing) {
    const Output output{.values = first.data,
                        .indices = second.data,
                        .dense = first.data,
                        .mask = static_cast<std::uint8_t*>(first.data),
                        .thresholds = third.data};
    if (array.device.kind == DeviceKind::cuda) {
      run_on_gpu(problem, rows.data, general.arrays, output, allocator, stream);
    } else {
      run_on_cpu(problem, options, rows.data, general.arrays, output);
    }
  }
  if (whole) return first.array;
  PyObject* const results = problem.thresholds
                                ? PyTuple_Pack(3, first.array.ptr(), second.array.ptr(), third.array.ptr())
                                : PyTuple_Pack(2, first.array.ptr(), second.array.ptr());
  if (results == nullptr) throw nb::python_error();
  return nb::steal(results);
}

}  // namespace rtopk::python_binding
