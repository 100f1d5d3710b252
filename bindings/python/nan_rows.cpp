// The library has NaN above every number. The smallest of a row with all signs changed are the largest of the row with
// NaN behind them, and ties are still settled by the index: so rows with a NaN are copied, changed, and selected from.
#include "nan_rows.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "common/cpu_workspace.hpp"

namespace rtopk::python_binding {
namespace {

/// Rows that are copied at a time: enough for all threads, little beside the input.
constexpr std::int64_t kBatchBytes = std::int64_t{8} << 20;

template <class Bits, Bits kSign, Bits kInfinity>
struct FloatBits {
  using Element = Bits;
  static constexpr Bits sign = kSign;
  static bool is_nan(Bits bits) { return (bits & static_cast<Bits>(~kSign)) > kInfinity; }
};
using F16 = FloatBits<std::uint16_t, 0x8000, 0x7c00>;
using BF16 = FloatBits<std::uint16_t, 0x8000, 0x7f80>;
using F32 = FloatBits<std::uint32_t, 0x80000000u, 0x7f800000u>;
using F64 = FloatBits<std::uint64_t, std::uint64_t{1} << 63, std::uint64_t{0x7ff} << 52>;

std::int64_t start_of(const Problem& problem, std::int64_t row) {
  if (problem.group_rows == 0) return row * problem.row_stride;
  return row / problem.group_rows * problem.group_stride + row % problem.group_rows * problem.row_stride;
}

template <class Type>
class Rows {
  using Element = typename Type::Element;

 public:
  Rows(const Plan& plan, const void* input, const Output& output)
      : problem_(plan.problem), input_(static_cast<const Element*>(input)), output_(output) {}

  Status again(const Traits& traits) {
    std::vector<std::int64_t> found;
    for (std::int64_t row = 0; row < problem_.rows; ++row) {
      if (has_nan(row)) found.push_back(row);
    }
    const std::int64_t at_a_time =
        std::max<std::int64_t>(1, kBatchBytes / (problem_.cols * static_cast<std::int64_t>(sizeof(Element))));
    for (std::size_t first = 0; first < found.size();) {
      const std::size_t count = std::min(found.size() - first, static_cast<std::size_t>(at_a_time));
      if (Status status = batch(found.data() + first, count, traits); !status.ok()) return status;
      first += count;
    }
    return {};
  }

 private:
  const Element* start(std::int64_t row) const { return input_ + start_of(problem_, row); }

  /// Whether the results of a row have a NaN.
  bool has_nan(std::int64_t row) const {
    if (problem_.form == Form::mask) {
      const std::uint8_t* const mask = output_.mask + row * problem_.cols;
      const Element* const from = start(row);
      for (std::int64_t i = 0; i < problem_.cols; ++i) {
        if (mask[i] != 0 && Type::is_nan(from[i * problem_.element_stride])) return true;
      }
      return false;
    }
    const bool dense = problem_.form == Form::dense;
    const std::int64_t width = dense ? problem_.cols : problem_.k;
    const Element* const values = static_cast<const Element*>(dense ? output_.dense : output_.values) + row * width;
    return std::any_of(values, values + width, Type::is_nan);
  }

  Status batch(const std::int64_t* rows, std::size_t count, const Traits& traits) {
    const std::int64_t cols = problem_.cols, k = problem_.k;
    const bool pairs = problem_.form == Form::pairs || problem_.form == Form::cbsr;
    Problem problem = problem_;
    problem.rows = static_cast<std::int64_t>(count);
    problem.row_stride = problem.element_stride = problem.group_rows = problem.group_stride = 0;
    problem.direction = Direction::smallest;
    if (!pairs) problem.form = Form::mask;  // of a dense row, zeros would get a sign
    Plan plan;
    if (Status status = make_plan(problem, traits, plan); !status.ok()) return status;

    const auto copies = std::make_unique_for_overwrite<Element[]>(count * static_cast<std::size_t>(cols));
    for (std::size_t i = 0; i < count; ++i) {
      const Element* const from = start(rows[i]);
      Element* const to = copies.get() + static_cast<std::int64_t>(i) * cols;
      for (std::int64_t j = 0; j < cols; ++j) to[j] = from[j * problem_.element_stride] ^ Type::sign;
    }
    const std::size_t index_bytes = size_of(problem.index_type);
    const std::size_t results = count * static_cast<std::size_t>(pairs ? k : cols);
    const auto values = std::make_unique_for_overwrite<Element[]>(pairs ? results : 0);
    const auto places = std::make_unique_for_overwrite<std::uint64_t[]>((results * index_bytes + 7) / 8);
    const Output output{
        .values = values.get(), .indices = places.get(), .mask = reinterpret_cast<std::uint8_t*>(places.get())};
    const bindings::CpuWorkspace workspace(plan.workspace_bytes);
    if (Status status = run(plan, copies.get(), output, workspace.get()); !status.ok()) return status;

    for (std::size_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::int64_t>(i);
      if (pairs) {
        Element* const to = static_cast<Element*>(output_.values) + rows[i] * k;
        for (std::int64_t j = 0; j < k; ++j) to[j] = values[static_cast<std::size_t>(at * k + j)] ^ Type::sign;
        const std::size_t row_bytes = static_cast<std::size_t>(k) * index_bytes;
        std::memcpy(static_cast<std::byte*>(output_.indices) + static_cast<std::size_t>(rows[i]) * row_bytes,
                    reinterpret_cast<const std::byte*>(places.get()) + i * row_bytes, row_bytes);
        continue;
      }
      const std::uint8_t* const mask = output.mask + at * cols;
      if (problem_.form == Form::mask) {
        std::memcpy(output_.mask + rows[i] * cols, mask, static_cast<std::size_t>(cols));
        continue;
      }
      Element* const to = static_cast<Element*>(output_.dense) + rows[i] * cols;
      const Element* const from = start(rows[i]);
      for (std::int64_t j = 0; j < cols; ++j) {
        to[j] = mask[j] != 0 ? from[j * problem_.element_stride] : Element{0};
      }
    }
    return {};
  }

  const Problem& problem_;
  const Element* input_;
  const Output& output_;
};

}  // namespace

Status put_nan_last(const Plan& plan, const void* input, const Output& output, const Traits& traits) {
  switch (plan.problem.dtype) {
    case DType::f32: return Rows<F32>(plan, input, output).again(traits);
    case DType::f16: return Rows<F16>(plan, input, output).again(traits);
    case DType::bf16: return Rows<BF16>(plan, input, output).again(traits);
    case DType::f64: return Rows<F64>(plan, input, output).again(traits);
    case DType::i32: break;
  }
  return {};
}

}  // namespace rtopk::python_binding
