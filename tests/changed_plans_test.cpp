// Plans are plain values that anyone can change. A run must reject a changed plan or give the right result, and must
// not touch other memory. Sanitizer builds run these tests, too.
#include <gtest/gtest.h>

#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include <rtopk/rtopk.h>
#include <rtopk/gnn/aggregate.hpp>
#include <rtopk/gnn/norm.hpp>
#include <rtopk/gnn/product.hpp>
#include <rtopk/moe/route.hpp>
#include "internal/linear.hpp"

#include "changes.hpp"
#include "check.hpp"
#include "conformance.hpp"
#include "general_rows.hpp"

namespace rtopk_test {

namespace gnn = rtopk::gnn;
namespace moe = rtopk::moe;
namespace {

// Limits of the memory that a test provides. A plan that asks for more workspace gets this much.
constexpr std::size_t kMaxWorkspace = std::size_t{1} << 22;
constexpr std::int64_t kMaxElements = 1 << 16;

/// Runs that succeeded and runs that were refused: if all are refused, a test proves nothing.
struct Counts {
  std::int64_t done = 0;
  std::int64_t refused = 0;

  void expect_both() const {
    EXPECT_GT(done, 0);
    EXPECT_GT(refused, 0);
    testing::Test::RecordProperty("done", std::to_string(done));
    testing::Test::RecordProperty("refused", std::to_string(refused));
  }
};

auto fields_of(rtopk::Plan& plan) {
  rtopk::Problem& p = plan.problem;
  return std::tie(p.rows, p.cols, p.k, p.row_stride, p.element_stride, p.group_rows, p.group_stride, p.dtype,
                  p.direction, p.order, p.form, p.index_type, p.values, p.indices, p.passes, p.max_iter, p.rule,
                  p.epsilon, p.search, p.magnitude, p.thresholds, p.ragged.lengths, p.ragged.starts, p.ragged.offsets,
                  p.ragged.k, p.ragged.elements, p.index_map.kind, p.index_map.type, p.index_map.stride,
                  p.index_map.pages, p.index_map.page_size, p.index_map.tables, p.index_map.table_of, p.device.kind,
                  p.device.ordinal, plan.family, plan.threads, plan.rows_per_block, plan.candidate_capacity,
                  plan.lanes_per_row, plan.elements_per_lane, plan.blocks, plan.parts, plan.shared_bytes,
                  plan.chunk_rows, plan.scratch_bytes, plan.workspace_bytes);
}

/// True if the problem is valid, its device exists, and it is small enough to allocate its memory.
bool is_affordable(rtopk::Problem problem) {
  rtopk::Traits traits;
  if (!rtopk::query_traits(problem.device, traits).ok()) return false;
  if (problem.rows < 0 || problem.rows > 1000 || problem.cols < 0 || problem.cols > kMaxElements ||
      problem.rows * problem.cols > kMaxElements) {
    return false;
  }
  problem.device = {};
  rtopk::Plan plan;
  return rtopk::make_plan(problem, rtopk::Traits{}, plan).ok() && input_elements(problem) <= kMaxElements &&
         map_numbers(problem) <= kMaxElements;
}

/// Runs a changed plan instead of the one that make_plan makes.
class ChangedPlan final : public Runner {
 public:
  explicit ChangedPlan(const rtopk::Plan& plan) : plan_(plan) {}
  [[nodiscard]] std::string name() const override { return "changed plan:\n" + rtopk::to_string(plan_); }
  [[nodiscard]] bool unsorted_is_ascending() const override { return true; }
  void activate() const override {}
  [[nodiscard]] std::string run(const Call& call) const override { return run_plan(plan_, call); }

 private:
  rtopk::Plan plan_;
};

rtopk::Plan random_plan(rtopk::Device device, Random& random) {
  rtopk::Problem problem;
  problem.rows = random.between(1, 12);
  problem.cols = random.coin() ? random.between(1, 700) : random.between(448, 5000);
  problem.k = random_k(problem.cols, random);
  problem.dtype = random.pick(kDTypes);
  problem.direction = random.pick(kDirections);
  random.pick(kLimits).apply(problem);
  random.pick(shapes_for(problem.cols)).apply(problem);
  problem.passes = random.coin();
  RowNumbers numbers;  // others are made for the changed problem
  if (random.coin()) generalise(problem, numbers, random);
  place(problem, random_layout(random));
  problem.device = device;
  rtopk::Traits traits;
  if (device.kind == rtopk::DeviceKind::cuda) {
    EXPECT_TRUE(rtopk::query_traits(device, traits).ok());
  } else {
    traits.threads = static_cast<std::int32_t>(random.between(1, 3));
  }
  rtopk::Plan plan;
  const rtopk::Status status = rtopk::make_plan(problem, traits, plan);
  EXPECT_TRUE(status.ok()) << status.text();
  return plan;
}

/// Empty, or an error: neither refused nor right.
std::string try_plan(const rtopk::Plan& plan, Random& random, Counts& counts) {
  if (!is_affordable(plan.problem) || plan.workspace_bytes > kMaxWorkspace) {
    // Call without memory: plan and problem are checked first.
    std::vector<std::byte> workspace(1024);
    const bool ok = rtopk::run(plan, nullptr, {}, {workspace.data(), workspace.size()}).ok();
    counts.refused += ok ? 0 : 1;
    return !ok || plan.problem.rows == 0 ? "" : "a run without memory went well:\n" + rtopk::to_string(plan);
  }
  // Changed strides may make rows share elements; without rows there are no elements.
  const std::int64_t elements = std::max(input_elements(plan.problem), plan.problem.k);
  const Matrix memory = make_mixed_matrix(plan.problem.dtype, 1, elements, plan.problem.k, random);
  const Matrix matrix = is_flat(plan.problem) ? memory : rows_in(memory, plan.problem);
  RowNumbers numbers;
  fill_rows(plan.problem, numbers, random);
  fill_map(plan.problem, numbers, random);
  const auto selections = select(tight(plan.problem), matrix.bytes.data(), numbers);
  const std::string wrong = check(ChangedPlan(plan), plan.problem, matrix, selections, Layout{}, numbers);
  const bool refused = wrong.starts_with(kRefused);
  ++(refused ? counts.refused : counts.done);
  return refused ? "" : wrong;
}

void try_selections(rtopk::Device device, std::int64_t times) {
  Random random(seed() + 80);
  Counts counts;
  for (std::int64_t left = times; left > 0; --left) {
    rtopk::Plan plan = random_plan(device, random);
    change_some(fields_of(plan), random);
    ASSERT_EQ(try_plan(plan, random, counts), "");
  }
  counts.expect_both();
}

TEST(ChangedPlans, OfSelectionsOnTheCpu) { try_selections({}, scaled(2500)); }

TEST(ChangedPlans, OfSelectionsOnAGpu) {
  rtopk::Traits traits;
  const rtopk::Device gpu{rtopk::DeviceKind::cuda, 0};
  const rtopk::Status status = rtopk::query_traits(gpu, traits);
  if (!status.ok()) GTEST_SKIP() << status.text();
  try_selections(gpu, scaled(2500));
}

// These numbers once wrapped around: 2^62 elements of 4 bytes are 0 bytes in 64 bits.
TEST(ChangedPlans, WithMoreCandidatesThanThereIsMemory) {
  if (!rtopk::build_info().highway) GTEST_SKIP() << "without Highway no plan has candidates";
  rtopk::Problem problem;
  problem.rows = 2;
  problem.cols = 10000;
  problem.k = 16;
  rtopk::Plan plan;
  ASSERT_TRUE(rtopk::make_plan(problem, rtopk::Traits{}, plan).ok());
  ASSERT_EQ(plan.family, rtopk::Family::cpu_stream);
  std::vector<float> matrix(20000);
  std::vector<float> values(32);
  std::vector<std::int64_t> indices(32);
  std::vector<std::byte> workspace(plan.workspace_bytes);
  const rtopk::Output output{.values = values.data(), .indices = indices.data()};
  ASSERT_TRUE(rtopk::run(plan, matrix.data(), output, {workspace.data(), workspace.size()}).ok());
  for (int bits = 20; bits < 63; ++bits) {
    plan.candidate_capacity = std::int64_t{1} << bits;
    const rtopk::Status status = rtopk::run(plan, matrix.data(), output, {workspace.data(), workspace.size()});
    EXPECT_EQ(status.code(), rtopk::StatusCode::invalid_argument) << bits;
  }
}

TEST(ChangedPlans, OfSizesThatNoMemoryHasAreNotMade) {
  rtopk::Problem problem;
  problem.rows = 1;
  problem.cols = (std::int64_t{1} << 60) - 1;
  problem.k = problem.cols;
  problem.dtype = rtopk::DType::f64;
  for (const rtopk::Order order : kOrders) {
    problem.order = order;
    rtopk::Plan plan;
    const rtopk::Status status = rtopk::make_plan(problem, rtopk::Traits{}, plan);
    // Sorting by value needs 16 bytes per result: 2^64 bytes. The reference needs 8 per column for every order.
    EXPECT_EQ(status.ok(), order != rtopk::Order::by_value && rtopk::build_info().highway) << status.text();
  }
}

/// `count` elements with small values: integers, or f32 otherwise.
std::vector<std::byte> some_bytes(std::int64_t count, std::size_t size, Random& random) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.between(0, 63));
  return bytes;
}

/// The workspace that the plan asks for, up to the limit.
std::vector<std::byte> workspace_of(std::size_t bytes) {
  return std::vector<std::byte>(std::min(bytes, kMaxWorkspace), std::byte{0x5a});
}

TEST(ChangedPlans, OfSumsOverNeighbours) {
  Random random(seed() + 81);
  Counts counts;
  for (std::int64_t left = scaled(10000); left > 0; --left) {
    const std::int64_t cols = random.between(1, 300);
    const gnn::Aggregation problem{
        .term = random.coin() ? gnn::AggregationTerm::forward : gnn::AggregationTerm::backward,
        .rows = random.between(0, 20),
        .nodes = random.between(0, 20),
        .edges = random.between(0, 60),
        .cols = cols,
        .k = random_k(cols, random),
        .selector_type = rtopk::selector_type(cols),
        .weighted = random.coin(),
        .mean = random.coin()};
    gnn::AggregationPlan plan;
    const rtopk::Traits traits{.threads = static_cast<std::int32_t>(random.between(1, 3))};
    ASSERT_TRUE(gnn::make_plan(problem, traits, plan).ok());
    gnn::Aggregation& p = plan.problem;
    change_some(
        std::tie(p.term, p.rows, p.nodes, p.edges, p.cols, p.k, p.dtype, p.selector_type, p.graph_index_type,
                 p.weighted, p.mean, p.deterministic, p.device.kind, p.device.ordinal, plan.family, plan.threads,
                 plan.rows_per_worker, plan.piece_edges, plan.short_edges, plan.window_cols, plan.edges_at_once,
                 plan.elements_per_sweep, plan.shared_bytes, plan.scratch_bytes, plan.workspace_bytes),
        random);
    gnn::AggregationPlan sound;
    const bool affordable = p.device.kind == rtopk::DeviceKind::cpu && std::max({p.rows, p.nodes, p.edges}) <= 1000 &&
                            gnn::make_plan(p, rtopk::Traits{}, sound).ok() &&
                            std::max(p.rows, p.nodes) * p.cols <= kMaxElements;
    auto workspace = workspace_of(plan.workspace_bytes);
    if (!affordable) {
      // If there is nothing to do, memory is not checked.
      const bool ok = gnn::run(plan, {}, {workspace.data(), workspace.size()}).ok();
      counts.refused += ok ? 0 : 1;
      ASSERT_TRUE(!ok || p.rows == 0 || p.nodes == 0);
      continue;
    }
    const std::size_t index = rtopk::size_of(p.graph_index_type);
    const auto starts = some_bytes(std::max(p.rows, p.nodes) + 1, index, random);  // any content is memory-safe
    const auto columns = some_bytes(p.edges, index, random);
    const auto weights = some_bytes(p.edges, sizeof(float), random);
    const auto values = some_bytes(p.nodes * p.k, rtopk::size_of(p.dtype), random);
    const auto selectors = some_bytes(p.nodes * p.k, rtopk::size_of(p.selector_type), random);
    const auto gradient = some_bytes(p.rows * p.cols, rtopk::size_of(p.dtype), random);
    const bool forward = p.term == gnn::AggregationTerm::forward;
    const auto results = static_cast<std::size_t>(forward ? p.rows * p.cols : p.nodes * p.k);
    std::vector<std::byte> expected(results * rtopk::size_of(p.dtype));
    std::vector<std::byte> actual(expected.size());
    const gnn::Graph graph{starts.data(), columns.data(), reinterpret_cast<const float*>(weights.data())};
    gnn::AggregationCall call{.graph = graph,
                              .transposed = graph,
                              .values = values.data(),
                              .selectors = selectors.data(),
                              .gradient = gradient.data(),
                              .result = expected.data()};
    auto sound_workspace = workspace_of(sound.workspace_bytes);
    const rtopk::Status status = gnn::run(sound, call, {sound_workspace.data(), sound_workspace.size()});
    ASSERT_TRUE(status.ok()) << status.text();
    call.result = actual.data();
    if (!gnn::run(plan, call, {workspace.data(), workspace.size()}).ok()) {
      ++counts.refused;
    } else {
      ++counts.done;
      ASSERT_EQ(actual, expected);
    }
  }
  counts.expect_both();
}

TEST(ChangedPlans, OfProducts) {
  Random random(seed() + 82);
  Counts counts;
  for (std::int64_t left = scaled(10000); left > 0; --left) {
    const std::int64_t cols = random.between(1, 300);
    const gnn::Product problem{.term = static_cast<gnn::ProductTerm>(random.between(0, 2)),
                               .rows = random.between(0, 20),
                               .cols = cols,
                               .k = random_k(cols, random),
                               .width = random.between(1, 40),
                               .selector_type = rtopk::selector_type(cols)};
    gnn::ProductPlan plan;
    const rtopk::Traits traits{.threads = static_cast<std::int32_t>(random.between(1, 3))};
    ASSERT_TRUE(gnn::make_plan(problem, traits, plan).ok());
    gnn::Product& p = plan.problem;
    change_some(
        std::tie(p.term, p.rows, p.cols, p.k, p.width, p.selector_type, p.device.kind, p.device.ordinal, plan.threads,
                 plan.rows_per_worker, plan.cols_per_worker, plan.parts, plan.shared_bytes, plan.workspace_bytes),
        random);
    gnn::ProductPlan sound;
    const bool affordable = p.device.kind == rtopk::DeviceKind::cpu && p.rows <= 1000 && p.width <= 1000 &&
                            gnn::make_plan(p, rtopk::Traits{}, sound).ok() &&
                            std::max(p.rows, p.cols) * std::max(p.width, p.k) <= kMaxElements;
    auto workspace = workspace_of(plan.workspace_bytes);
    if (!affordable) {
      const bool ok = gnn::run(plan, {}, {workspace.data(), workspace.size()}).ok();
      counts.refused += ok ? 0 : 1;
      ASSERT_TRUE(!ok || p.rows == 0);
      continue;
    }
    const auto floats = [&](std::int64_t count) {
      std::vector<float> made(static_cast<std::size_t>(count));
      for (float& number : made) number = static_cast<float>(random.between(-9, 9));
      return made;
    };
    const auto values = floats(p.rows * p.k);
    const auto matrix = floats(p.cols * p.width);
    const auto gradient = floats(p.rows * p.width);
    const auto selectors = some_bytes(p.rows * p.k, rtopk::size_of(p.selector_type), random);
    const std::int64_t results = p.term == gnn::ProductTerm::product           ? p.rows * p.width
                                 : p.term == gnn::ProductTerm::values_gradient ? p.rows * p.k
                                                                               : p.cols * p.width;
    std::vector<float> expected(static_cast<std::size_t>(results));
    std::vector<float> actual(expected.size());
    gnn::ProductCall call{.values = values.data(),
                          .selectors = selectors.data(),
                          .matrix = matrix.data(),
                          .gradient = gradient.data(),
                          .result = expected.data()};
    const rtopk::Status status = gnn::run(sound, call);
    ASSERT_TRUE(status.ok()) << status.text();
    call.result = actual.data();
    if (!gnn::run(plan, call, {workspace.data(), workspace.size()}).ok()) {
      ++counts.refused;
    } else {
      ++counts.done;
      ASSERT_EQ(actual, expected);
    }
  }
  counts.expect_both();
}

TEST(ChangedPlans, OfRoutes) {
  Random random(seed() + 84);
  Counts counts;
  for (std::int64_t left = scaled(10000); left > 0; --left) {
    const std::int64_t groups = random.between(1, 4);
    const moe::Route problem{.rows = random.between(0, 20),
                             .experts = groups * random.between(1, 40),
                             .k = 1,
                             .groups = groups,
                             .group_k = random.between(1, groups),
                             .dtype = static_cast<rtopk::DType>(random.between(0, 2)),
                             .score = static_cast<moe::Score>(random.between(0, 2))};
    moe::RoutePlan plan;
    const rtopk::Traits traits{.threads = static_cast<std::int32_t>(random.between(1, 3))};
    ASSERT_TRUE(moe::make_plan(problem, traits, plan).ok());
    moe::Route& p = plan.problem;
    change_some(std::tie(p.rows, p.experts, p.k, p.groups, p.group_k, p.dtype, p.score, p.biased, p.renormalize,
                         p.scale, p.device.kind, p.device.ordinal, plan.threads, plan.rows_per_worker, plan.blocks,
                         plan.shared_bytes, plan.workspace_bytes),
                random);
    moe::RoutePlan sound;
    const bool affordable = p.device.kind == rtopk::DeviceKind::cpu && p.rows <= 1000 &&
                            moe::make_plan(p, rtopk::Traits{}, sound).ok() && p.rows * p.experts <= kMaxElements;
    if (!affordable) {
      const bool ok = moe::run(plan, {}).ok();
      counts.refused += ok ? 0 : 1;
      ASSERT_TRUE(!ok || p.rows == 0);
      continue;
    }
    const auto logits = some_bytes(p.rows * p.experts, rtopk::size_of(p.dtype), random);
    const std::vector<float> bias(static_cast<std::size_t>(p.experts), 0.5f);
    std::vector<float> weights(static_cast<std::size_t>(p.rows * p.k));
    std::vector<std::int32_t> expected(weights.size());
    std::vector<std::int32_t> actual(weights.size());
    moe::RouteCall call{
        .logits = logits.data(), .bias = bias.data(), .weights = weights.data(), .ids = expected.data()};
    const rtopk::Status status = moe::run(sound, call);
    ASSERT_TRUE(status.ok()) << status.text();
    call.ids = actual.data();
    if (!moe::run(plan, call).ok()) {
      ++counts.refused;
    } else {
      ++counts.done;
      ASSERT_EQ(actual, expected);
    }
  }
  counts.expect_both();
}

// These run only on GPUs. Without memory every run fails, and errors of the plan come first.
TEST(ChangedPlans, OfNormsLinearMapsAndTranspositions) {
  Random random(seed() + 83);
  const rtopk::Device gpu{rtopk::DeviceKind::cuda, 0};
  const rtopk::Traits h200{
      .device = gpu, .compute_capability = 90, .multiprocessors = 132, .shared_bytes_per_block = 232448};
  for (std::int64_t left = scaled(20000); left > 0; --left) {
    gnn::NormPlan norm;
    norm.problem = {.term = gnn::NormTerm::gradient, .rows = 100, .cols = 256, .device = gpu};
    ASSERT_TRUE(gnn::make_plan(gnn::Norm(norm.problem), h200, norm).ok());
    gnn::Norm& n = norm.problem;
    change_some(std::tie(n.term, n.rows, n.cols, n.k, n.selector_type, n.biased, n.epsilon, n.device.kind,
                         n.device.ordinal, norm.threads, norm.blocks, norm.shared_bytes, norm.workspace_bytes),
                random);
    ASSERT_FALSE(gnn::run(norm, {}).ok());

    gnn::LinearPlan linear;
    linear.problem = {
        .term = gnn::LinearTerm::matrix_gradient, .rows = 100000, .inputs = 256, .outputs = 64, .device = gpu};
    ASSERT_TRUE(gnn::make_plan(gnn::Linear(linear.problem), h200, linear).ok());
    gnn::Linear& l = linear.problem;
    change_some(std::tie(l.term, l.rows, l.inputs, l.outputs, l.biased, l.device.kind, l.device.ordinal, linear.parts,
                         linear.workspace_bytes),
                random);
    ASSERT_TRUE(!gnn::run(linear, {}).ok() || l.rows == 0);

    gnn::TranspositionPlan transposition;
    ASSERT_TRUE(gnn::make_plan(gnn::Transposition{.rows = 10, .nodes = 10, .edges = 20}, transposition).ok());
    gnn::Transposition& t = transposition.problem;
    change_some(std::tie(t.rows, t.nodes, t.edges, t.graph_index_type, t.weighted, t.device.kind, t.device.ordinal,
                         transposition.workspace_bytes),
                random);
    ASSERT_FALSE(gnn::run(transposition, {}, {}).ok());
  }
}

/// Numbers from the text of a C plan; empty if it is not a plan, or if its strides need too much memory.
std::vector<std::int64_t> numbers_of(const rtopk_plan& plan) {
  std::string text(4096, '\0');
  text.resize(std::min(rtopk_plan_text(&plan, text.data(), text.size()), text.size()));
  std::istringstream lines(text);
  std::vector<std::int64_t> numbers;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("element_stride=") || line.starts_with("group_")) return {};
    for (const char* name : {"rows=", "cols=", "k=", "row_stride="}) {
      if (line.starts_with(name)) numbers.push_back(std::stoll(line.substr(std::strlen(name))));
    }
  }
  return numbers;
}

bool has_no_rows(const rtopk_plan& plan) {
  std::string text(4096, '\0');
  rtopk_plan_text(&plan, text.data(), text.size());
  return text.find("\nrows=0\n") != std::string::npos;
}

TEST(ChangedPlans, OfCWithAnyBytes) {
  Random random(seed() + 84);
  Counts counts;
  for (std::int64_t left = scaled(30000); left > 0; --left) {
    rtopk_problem problem;
    rtopk_problem_init(&problem);
    problem.rows = random.between(1, 6);
    problem.cols = random.between(1, 600);
    problem.k = random_k(problem.cols, random);
    problem.passes = 1;
    rtopk_plan plan;
    ASSERT_EQ(rtopk_make_plan_threads(&problem, 2, &plan).code, RTOPK_OK);
    auto* const bytes = reinterpret_cast<unsigned char*>(&plan);
    for (std::int64_t changes = random.between(1, 3); changes > 0; --changes) {
      bytes[random.between(0, random.coin() ? 255 : 15)] ^= static_cast<unsigned char>(random.bits());
    }
    const std::vector<std::int64_t> numbers = numbers_of(plan);  // rows, cols, k, row_stride
    const bool affordable = numbers.size() == 4 && numbers[0] >= 0 && numbers[0] <= 1000 && numbers[1] >= 1 &&
                            numbers[1] <= kMaxElements && numbers[3] >= 1 && numbers[3] <= kMaxElements &&
                            numbers[0] * numbers[3] <= kMaxElements;
    auto workspace = workspace_of(rtopk_workspace_bytes(&plan));
    rtopk_output output = {};
    if (!affordable) {
      const rtopk_status status = rtopk_run(&plan, nullptr, &output, workspace.data(), workspace.size(), nullptr);
      ASSERT_TRUE(status.code != RTOPK_OK || has_no_rows(plan));
      ++counts.refused;
      continue;
    }
    const auto count = static_cast<std::size_t>(numbers[0] * std::max(numbers[1], numbers[3]));
    const std::vector<double> input(count);  // double has the largest element size
    std::vector<double> values(count);
    std::vector<std::int64_t> indices(count);
    std::vector<double> dense(count);
    std::vector<std::uint8_t> mask(count);
    std::vector<std::int32_t> passes(count);
    std::vector<double> thresholds(count);
    output = {values.data(), indices.data(), dense.data(), mask.data(), passes.data(), thresholds.data()};
    const rtopk_status status = rtopk_run(&plan, input.data(), &output, workspace.data(), workspace.size(), nullptr);
    ++(status.code == RTOPK_OK ? counts.done : counts.refused);
  }
  counts.expect_both();
}

TEST(ChangedPlans, OfCWithAnotherMarkSizeOrVersionAreRefused) {
  rtopk_problem problem;
  rtopk_problem_init(&problem);
  problem.rows = 2;
  problem.cols = 6;
  problem.k = 2;
  rtopk_plan plan;
  ASSERT_EQ(rtopk_make_plan(&problem, &plan).code, RTOPK_OK);
  const float matrix[12] = {};
  float values[4];
  std::int64_t indices[4];
  rtopk_output output = {};
  output.values = values;
  output.indices = indices;
  std::vector<std::byte> workspace(rtopk_workspace_bytes(&plan));
  ASSERT_GT(workspace.size(), 0u);
  ASSERT_EQ(rtopk_run(&plan, matrix, &output, workspace.data(), workspace.size(), nullptr).code, RTOPK_OK);
  for (int bit = 0; bit < 128; ++bit) {
    rtopk_plan other = plan;
    reinterpret_cast<unsigned char*>(&other)[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    const rtopk_status status = rtopk_run(&other, matrix, &output, workspace.data(), workspace.size(), nullptr);
    EXPECT_EQ(status.code, RTOPK_INVALID_ARGUMENT) << bit;
    EXPECT_EQ(std::string(status.text).rfind("plan is not a plan of this version", 0), 0u) << status.text;
    EXPECT_EQ(rtopk_workspace_bytes(&other), 0u);
    EXPECT_EQ(rtopk_plan_text(&other, nullptr, 0), 0u);
  }
}

}  // namespace
}  // namespace rtopk_test
