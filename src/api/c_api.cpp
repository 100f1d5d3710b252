// The C API: the same calls with plain structs. Enumerators have the same values in both languages.
#include <rtopk/rtopk.h>

#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include <rtopk/rtopk.hpp>

namespace {

static_assert(static_cast<int>(rtopk::DType::i32) == RTOPK_I32);
static_assert(static_cast<int>(rtopk::Form::cbsr) == RTOPK_CBSR);
static_assert(static_cast<int>(rtopk::IndexType::u16) == RTOPK_INDEX_U16);
static_assert(static_cast<int>(rtopk::ArrayType::i64) == RTOPK_ARRAY_I64);
static_assert(static_cast<int>(rtopk::IndexKind::shifted) == RTOPK_INDEX_SHIFTED);
static_assert(sizeof(rtopk_row_arrays) == sizeof(rtopk::RowArrays));
static_assert(static_cast<int>(rtopk::StatusCode::device_error) == RTOPK_DEVICE_ERROR);
static_assert(sizeof(rtopk_executor) == sizeof(rtopk::Executor));
static_assert(sizeof(rtopk_output) == sizeof(rtopk::Output));

rtopk_status to_c(const rtopk::Status& status) {
  rtopk_status result{};
  result.code = static_cast<std::int32_t>(status.code());
  std::strncpy(result.text, status.text(), sizeof result.text - 1);
  return result;
}

rtopk_status refusal(const char* text) { return to_c({rtopk::StatusCode::invalid_argument, text}); }

/// Converts an enumerator from C. Values out of range become one that the library's checks reject.
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
          .element_stride = p.element_stride,
          .group_rows = p.group_rows,
          .group_stride = p.group_stride,
          .dtype = enumerator<rtopk::DType>(p.dtype),
          .direction = enumerator<rtopk::Direction>(p.direction),
          .order = enumerator<rtopk::Order>(p.order),
          .form = enumerator<rtopk::Form>(p.form),
          .index_type = enumerator<rtopk::IndexType>(p.index_type),
          .values = p.values != 0,
          .indices = p.indices != 0,
          .passes = p.passes != 0,
          .max_iter = p.max_iter,
          .rule = enumerator<rtopk::Rule>(p.rule),
          .epsilon = p.epsilon,
          .search = enumerator<rtopk::Search>(p.search),
          .magnitude = p.magnitude != 0,
          .thresholds = p.thresholds != 0,
          .ragged = {.lengths = enumerator<rtopk::ArrayType>(p.lengths),
                     .starts = enumerator<rtopk::ArrayType>(p.starts),
                     .offsets = enumerator<rtopk::ArrayType>(p.offsets),
                     .k = enumerator<rtopk::ArrayType>(p.row_k),
                     .elements = p.elements},
          .index_map = {.kind = enumerator<rtopk::IndexKind>(p.index_kind),
                        .type = enumerator<rtopk::ArrayType>(p.map_type),
                        .stride = p.map_stride,
                        .pages = p.pages,
                        .page_size = p.page_size,
                        .tables = p.tables,
                        .table_of = enumerator<rtopk::ArrayType>(p.table_of)},
          .device = {enumerator<rtopk::DeviceKind>(p.device_kind), p.device_ordinal}};
}

rtopk_problem to_c(const rtopk::Problem& p) {
  return {.rows = p.rows,
          .cols = p.cols,
          .k = p.k,
          .row_stride = p.row_stride,
          .element_stride = p.element_stride,
          .group_rows = p.group_rows,
          .group_stride = p.group_stride,
          .dtype = static_cast<std::int32_t>(p.dtype),
          .direction = static_cast<std::int32_t>(p.direction),
          .order = static_cast<std::int32_t>(p.order),
          .form = static_cast<std::int32_t>(p.form),
          .index_type = static_cast<std::int32_t>(p.index_type),
          .values = p.values ? 1 : 0,
          .indices = p.indices ? 1 : 0,
          .passes = p.passes ? 1 : 0,
          .max_iter = p.max_iter,
          .search = static_cast<std::int32_t>(p.search),
          .rule = static_cast<std::int32_t>(p.rule),
          .epsilon = p.epsilon,
          .magnitude = p.magnitude ? 1 : 0,
          .thresholds = p.thresholds ? 1 : 0,
          .lengths = static_cast<std::int32_t>(p.ragged.lengths),
          .starts = static_cast<std::int32_t>(p.ragged.starts),
          .offsets = static_cast<std::int32_t>(p.ragged.offsets),
          .row_k = static_cast<std::int32_t>(p.ragged.k),
          .elements = p.ragged.elements,
          .index_kind = static_cast<std::int32_t>(p.index_map.kind),
          .map_type = static_cast<std::int32_t>(p.index_map.type),
          .map_stride = p.index_map.stride,
          .pages = p.index_map.pages,
          .page_size = p.index_map.page_size,
          .tables = p.index_map.tables,
          .table_of = static_cast<std::int32_t>(p.index_map.table_of),
          .device_kind = static_cast<std::int32_t>(p.device.kind),
          .device_ordinal = p.device.ordinal};
}

/// The content of an rtopk_plan: all fields of a plan, in types that are valid for any bytes, behind a header that
/// identifies it.
struct SavedPlan {
  std::uint64_t magic;
  std::uint32_t bytes;
  std::uint32_t version;
  rtopk_problem problem;
  std::int32_t family;
  std::int32_t threads;
  std::int64_t rows_per_block;
  std::int64_t candidate_capacity;
  std::int32_t lanes_per_row;
  std::int32_t elements_per_lane;
  std::int64_t blocks;
  std::int64_t parts;
  std::uint64_t shared_bytes;
  std::int64_t chunk_rows;
  std::uint64_t scratch_bytes;
  std::uint64_t workspace_bytes;
};
static_assert(sizeof(SavedPlan) <= sizeof(rtopk_plan));
static_assert(alignof(SavedPlan) <= alignof(rtopk_plan));
static_assert(std::is_trivially_copyable_v<SavedPlan>);
// If this fails, a field was added to Plan: save and load it here, then update the size.
static_assert(sizeof(void*) != 8 || sizeof(rtopk::Plan) == 240);

constexpr std::uint64_t kMagic = 0x6e616c704b706f54;  // "TopKplan"
constexpr std::uint32_t kVersion = RTOPK_VERSION_MAJOR << 20 | RTOPK_VERSION_MINOR << 10 | RTOPK_VERSION_PATCH;

void save(const rtopk::Plan& plan, rtopk_plan& opaque) {
  const SavedPlan saved{.magic = kMagic,
                        .bytes = sizeof(SavedPlan),
                        .version = kVersion,
                        .problem = to_c(plan.problem),
                        .family = static_cast<std::int32_t>(plan.family),
                        .threads = plan.threads,
                        .rows_per_block = plan.rows_per_block,
                        .candidate_capacity = plan.candidate_capacity,
                        .lanes_per_row = plan.lanes_per_row,
                        .elements_per_lane = plan.elements_per_lane,
                        .blocks = plan.blocks,
                        .parts = plan.parts,
                        .shared_bytes = plan.shared_bytes,
                        .chunk_rows = plan.chunk_rows,
                        .scratch_bytes = plan.scratch_bytes,
                        .workspace_bytes = plan.workspace_bytes};
  opaque = {};
  std::memcpy(&opaque, &saved, sizeof saved);
}

/// Loads a plan. False if `opaque` is not a plan of this version of the library. run() checks the config.
bool load(const rtopk_plan& opaque, rtopk::Plan& plan) {
  SavedPlan saved;
  std::memcpy(&saved, &opaque, sizeof saved);
  if (saved.magic != kMagic || saved.bytes != sizeof saved || saved.version != kVersion) return false;
  plan = {.problem = to_cpp(saved.problem),
          .family = enumerator<rtopk::Family>(saved.family),
          .threads = saved.threads,
          .rows_per_block = saved.rows_per_block,
          .candidate_capacity = saved.candidate_capacity,
          .lanes_per_row = saved.lanes_per_row,
          .elements_per_lane = saved.elements_per_lane,
          .blocks = saved.blocks,
          .parts = saved.parts,
          .shared_bytes = saved.shared_bytes,
          .chunk_rows = saved.chunk_rows,
          .scratch_bytes = saved.scratch_bytes,
          .workspace_bytes = saved.workspace_bytes};
  return true;
}

template <class MakePlan>
rtopk_status make_plan(const rtopk_problem* problem, rtopk_plan* opaque, MakePlan&& make) {
  if (problem == nullptr) return refusal("problem is null; accepted: a pointer to a problem");
  if (opaque == nullptr) return refusal("plan is null; accepted: a pointer to a plan");
  rtopk::Plan plan;
  const rtopk::Status status = make(to_cpp(*problem), plan);
  if (status.ok()) save(plan, *opaque);
  return to_c(status);
}

}  // namespace

extern "C" {

void rtopk_problem_init(rtopk_problem* problem) {
  if (problem == nullptr) return;
  *problem = to_c(rtopk::Problem{});
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

std::size_t rtopk_workspace_bytes(const rtopk_plan* opaque) {
  rtopk::Plan plan;
  return opaque != nullptr && load(*opaque, plan) ? plan.workspace_bytes : 0;
}

std::size_t rtopk_plan_text(const rtopk_plan* opaque, char* text, std::size_t size) {
  rtopk::Plan plan;
  if (opaque == nullptr || !load(*opaque, plan)) return 0;
  std::string whole;
  try {
    whole = rtopk::to_string(plan);
  } catch (...) {  // out of memory
    return 0;
  }
  if (text != nullptr && size > 0) {
    const std::size_t length = whole.size() < size ? whole.size() : size - 1;
    std::memcpy(text, whole.data(), length);
    text[length] = '\0';
  }
  return whole.size();
}

rtopk_status rtopk_run(const rtopk_plan* opaque, const void* input, const rtopk_output* output, void* workspace,
                       std::size_t workspace_bytes, const rtopk_launch* launch) {
  return rtopk_run_rows(opaque, input, nullptr, output, workspace, workspace_bytes, launch);
}

rtopk_status rtopk_run_rows(const rtopk_plan* opaque, const void* input, const rtopk_row_arrays* arrays,
                            const rtopk_output* output, void* workspace, std::size_t workspace_bytes,
                            const rtopk_launch* launch) {
  if (opaque == nullptr) return refusal("plan is null; accepted: a plan that rtopk_make_plan has filled in");
  rtopk::Plan plan;
  if (!load(*opaque, plan)) {
    return refusal("plan is not a plan of this version of rtopk; accepted: one that its rtopk_make_plan has filled in");
  }
  if (output == nullptr) return refusal("output is null; accepted: a pointer to an output");
  rtopk::Executor executor;
  rtopk::Launch where;
  if (launch != nullptr) {
    where.stream = launch->stream;
    if (launch->executor != nullptr) {
      executor = {launch->executor->parallel_for, launch->executor->context};
      where.executor = &executor;
    }
  }
  // All fields: a new one fails to compile here.
  const auto [values, indices, dense, mask, passes, thresholds] = *output;
  const rtopk::Output out{values, indices, dense, mask, passes, thresholds};
  rtopk::RowArrays described;
  if (arrays != nullptr) {
    const auto [lengths, starts, offsets, k, map, table_of] = *arrays;
    described = {lengths, starts, offsets, k, map, table_of};
  }
  return to_c(rtopk::run(plan, input, out, {workspace, workspace_bytes}, where, described));
}

const char* rtopk_version(void) { return rtopk::version(); }

}  // extern "C"
