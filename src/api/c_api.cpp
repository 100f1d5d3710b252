// The C functions: the same calls with plain structs. Enumerators have the same values in both languages.
#include <rtopk/rtopk.h>

#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <type_traits>

#include <rtopk/rtopk.hpp>

namespace {

static_assert(sizeof(rtopk::Plan) <= sizeof(rtopk_plan));
static_assert(alignof(rtopk::Plan) <= alignof(rtopk_plan));
static_assert(std::is_trivially_copyable_v<rtopk::Plan>);
static_assert(static_cast<int>(rtopk::DType::i32) == RTOPK_I32);
static_assert(static_cast<int>(rtopk::Form::cbsr) == RTOPK_CBSR);
static_assert(static_cast<int>(rtopk::IndexType::u16) == RTOPK_INDEX_U16);
static_assert(static_cast<int>(rtopk::StatusCode::device_error) == RTOPK_DEVICE_ERROR);
static_assert(sizeof(rtopk_executor) == sizeof(rtopk::Executor));

rtopk_status to_c(const rtopk::Status& status) {
  rtopk_status result{};
  result.code = static_cast<std::int32_t>(status.code());
  std::strncpy(result.text, status.text(), sizeof result.text - 1);
  return result;
}

rtopk_status null_argument(const char* text) { return to_c({rtopk::StatusCode::invalid_argument, text}); }

/// An enumerator from C. What does not fit becomes a value that the library's own check refuses.
template <class Enum>
Enum enumerator(std::int32_t value) {
  constexpr int none = std::numeric_limits<std::underlying_type_t<Enum>>::max();
  return static_cast<Enum>(value < 0 || value > none ? none : value);
}

rtopk::Problem to_cpp(const rtopk_problem& p) {
  return {.rows = p.rows,
          .cols = p.cols,
          .k = p.k,
          .row_stride = p.row_stride,
          .dtype = enumerator<rtopk::DType>(p.dtype),
          .direction = enumerator<rtopk::Direction>(p.direction),
          .order = enumerator<rtopk::Order>(p.order),
          .form = enumerator<rtopk::Form>(p.form),
          .index_type = enumerator<rtopk::IndexType>(p.index_type),
          .values = p.values != 0,
          .indices = p.indices != 0,
          .passes = p.passes != 0,
          .max_iter = p.max_iter,
          .epsilon = p.epsilon,
          .search = enumerator<rtopk::Search>(p.search),
          .device = {enumerator<rtopk::DeviceKind>(p.device_kind), p.device_ordinal}};
}

rtopk::Plan plan_from(const rtopk_plan& opaque) {
  rtopk::Plan plan;
  std::memcpy(static_cast<void*>(&plan), &opaque, sizeof plan);
  return plan;
}

template <class MakePlan>
rtopk_status make_plan(const rtopk_problem* problem, rtopk_plan* opaque, MakePlan&& make) {
  if (problem == nullptr) return null_argument("problem is null; accepted: a pointer to a problem");
  if (opaque == nullptr) return null_argument("plan is null; accepted: a pointer to a plan");
  rtopk::Plan plan;
  const rtopk::Status status = make(to_cpp(*problem), plan);
  if (status.ok()) {
    *opaque = {};
    std::memcpy(opaque, static_cast<const void*>(&plan), sizeof plan);
  }
  return to_c(status);
}

}  // namespace

extern "C" {

void rtopk_problem_init(rtopk_problem* problem) {
  if (problem == nullptr) return;
  const rtopk::Problem defaults;
  *problem = {};
  problem->index_type = static_cast<std::int32_t>(defaults.index_type);
  problem->values = defaults.values ? 1 : 0;
  problem->indices = defaults.indices ? 1 : 0;
}

rtopk_status rtopk_make_plan(const rtopk_problem* problem, rtopk_plan* plan) {
  return make_plan(problem, plan, [](const rtopk::Problem& p, rtopk::Plan& made) { return rtopk::make_plan(p, made); });
}

rtopk_status rtopk_make_plan_threads(const rtopk_problem* problem, std::int32_t threads, rtopk_plan* plan) {
  return make_plan(problem, plan, [threads](const rtopk::Problem& p, rtopk::Plan& made) {
    const rtopk::Traits traits{.device = p.device, .threads = threads};
    return rtopk::make_plan(p, traits, made);
  });
}

std::size_t rtopk_workspace_bytes(const rtopk_plan* plan) {
  return plan == nullptr ? 0 : plan_from(*plan).workspace_bytes;
}

std::size_t rtopk_plan_text(const rtopk_plan* plan, char* text, std::size_t size) {
  if (plan == nullptr) return 0;
  std::string whole;
  try {
    whole = rtopk::to_string(plan_from(*plan));
  } catch (const std::bad_alloc&) {
    return 0;
  }
  if (text != nullptr && size > 0) {
    const std::size_t length = whole.size() < size ? whole.size() : size - 1;
    std::memcpy(text, whole.data(), length);
    text[length] = '\0';
  }
  return whole.size();
}

rtopk_status rtopk_run(const rtopk_plan* plan, const void* input, const rtopk_output* output, void* workspace,
                       std::size_t workspace_bytes, const rtopk_launch* launch) {
  if (plan == nullptr) return null_argument("plan is null; accepted: a plan that rtopk_make_plan has filled in");
  if (output == nullptr) return null_argument("output is null; accepted: a pointer to an output");
  rtopk::Executor executor;
  rtopk::Launch where;
  if (launch != nullptr) {
    where.stream = launch->stream;
    if (launch->executor != nullptr) {
      executor = {launch->executor->parallel_for, launch->executor->context};
      where.executor = &executor;
    }
  }
  const rtopk::Output out{output->values, output->indices, output->dense, output->mask, output->passes};
  return to_c(rtopk::run(plan_from(*plan), input, out, {workspace, workspace_bytes}, where));
}

const char* rtopk_version(void) { return rtopk::version(); }

}  // extern "C"
