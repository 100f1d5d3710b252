// Guarantees of the CUDA backend beyond its results: CUDA graphs, streams, concurrent callers; no allocation, no
// synchronization; bit-identical repetitions; and its errors.
#include "cuda_selection.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "conformance.hpp"
#include "general_rows.hpp"

namespace rtopk_test {
namespace {

struct Size {
  std::int64_t rows, cols, k;
};

/// Selects from the columns of the same memory, as many as it has rows.
void select_columns(rtopk::Problem& problem) {
  problem.row_stride = 1;
  problem.element_stride = problem.rows;
}

/// One size per way to distribute rows: part of a warp, a warp, a block, several blocks, the whole device.
constexpr Size kSizes[] = {{3000, 32, 4},      {1001, 256, 32}, {500, 1000, 64},    {300, 4096, 64},
                           {40, 20000, 300},   {3, 131072, 64}, {2, 300007, 20000}, {1, 3000017, 100000},
                           {1, 3000017, 5000}, {7, 5, 5}};

Matrix matrix_of(const Size& size, rtopk::DType dtype, Random& random) {
  return make_matrix(dtype, size.rows, size.cols, size.k, Pattern::normal, random);
}

class Cuda : public CudaTest {};

TEST_F(Cuda, GraphsReplayOnNewInput) {
  Random random(seed() + 100);
  for (const Size& size : kSizes) {
    for (const auto& [order, columns] :
         {std::pair{rtopk::Order::unsorted, false}, {rtopk::Order::by_value, false}, {rtopk::Order::by_value, true}}) {
      if (columns && size.rows == 1) continue;
      Matrix matrix = matrix_of(size, rtopk::DType::f32, random);
      rtopk::Problem problem = problem_for(matrix, size.k);
      problem.order = order;
      if (columns) select_columns(problem);
      const CudaSelection selection(problem);
      const DeviceBuffer input(matrix.bytes.size());
      const Stream stream;
      cudaGraph_t graph = nullptr;
      // The strictest mode: any call that would allocate or synchronize, in any thread, invalidates the capture.
      RTOPK_REQUIRE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      const rtopk::Status status = selection.run(input.data(), stream);
      RTOPK_REQUIRE_CUDA(cudaStreamEndCapture(stream, &graph)) << describe(problem);
      ASSERT_TRUE(status.ok()) << status.text() << '\n' << describe(problem);
      cudaGraphExec_t executable = nullptr;
      RTOPK_REQUIRE_CUDA(cudaGraphInstantiate(&executable, graph, 0));
      for (int replay = 0; replay < 3; ++replay) {
        matrix = matrix_of(size, rtopk::DType::f32, random);
        input.upload(matrix.bytes);
        RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
        selection.poison(stream);
        RTOPK_REQUIRE_CUDA(cudaGraphLaunch(executable, stream));
        stream.synchronize();
        ASSERT_EQ(first_difference(on_cpu(problem, matrix.bytes.data()), selection.result()), "")
            << "replay " << replay << '\n'
            << rtopk::to_string(selection.plan());
      }
      RTOPK_REQUIRE_CUDA(cudaGraphExecDestroy(executable));
      RTOPK_REQUIRE_CUDA(cudaGraphDestroy(graph));
    }
  }
}

/// The arrays of a problem in device memory, whose content changes and whose addresses stay.
class DeviceArrays {
 public:
  explicit DeviceArrays(const ArrayBytes& bytes)
      : lengths_(bytes.lengths.size()),
        starts_(bytes.starts.size()),
        offsets_(bytes.offsets.size()),
        k_(bytes.k.size()),
        map_(bytes.map.size()),
        table_of_(bytes.table_of.size()) {
    fill(bytes);
  }
  void fill(const ArrayBytes& bytes) const {
    const std::pair<const DeviceBuffer*, const Bytes*> all[] = {
        {&lengths_, &bytes.lengths}, {&starts_, &bytes.starts},    {&offsets_, &bytes.offsets}, {&k_, &bytes.k},
        {&map_, &bytes.map},         {&table_of_, &bytes.table_of}};
    for (const auto& [buffer, content] : all) {
      if (!content->empty()) buffer->upload(*content);
    }
  }
  [[nodiscard]] rtopk::RowArrays view() const {
    return {lengths_.data(), starts_.data(), offsets_.data(), k_.data(), map_.data(), table_of_.data()};
  }

 private:
  DeviceBuffer lengths_, starts_, offsets_, k_, map_, table_of_;
};

// The arrays of general rows are read by the kernels: a graph that was captured with some lengths serves any others.
TEST_F(Cuda, GraphsReplayWithOtherRows) {
  Random random(seed() + 120);
  for (const Size& size : kSizes) {
    for (const auto& [flat, order] : {std::pair{false, rtopk::Order::unsorted}, {true, rtopk::Order::by_value}}) {
      rtopk::Problem problem = problem_for(matrix_of(size, rtopk::DType::f32, random), size.k);
      problem.order = order;
      problem.thresholds = true;
      problem.magnitude = random.coin();
      RowNumbers numbers;
      make_ragged(problem, numbers, flat, random);
      if (!flat) problem.ragged.lengths = rtopk::ArrayType::i32;
      if (flat) problem.ragged.elements = size.rows * size.cols;
      fill_rows(problem, numbers, random);
      map_indices(problem, random.coin() ? rtopk::IndexKind::pages : rtopk::IndexKind::shifted, numbers, random);
      const DeviceArrays arrays(ArrayBytes(problem, numbers));
      const CudaSelection selection(problem);
      const DeviceBuffer input(static_cast<std::size_t>(size.rows * size.cols) * 4);
      const Stream stream;
      cudaGraph_t graph = nullptr;
      RTOPK_REQUIRE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      const rtopk::Status status = selection.run(input.data(), stream, arrays.view());
      RTOPK_REQUIRE_CUDA(cudaStreamEndCapture(stream, &graph)) << describe(problem);
      ASSERT_TRUE(status.ok()) << status.text() << '\n' << describe(problem);
      cudaGraphExec_t executable = nullptr;
      RTOPK_REQUIRE_CUDA(cudaGraphInstantiate(&executable, graph, 0));
      for (int replay = 0; replay < 3; ++replay) {
        const Matrix matrix = input_for(problem, random);
        input.upload(matrix.bytes);
        fill_rows(problem, numbers, random);
        // Long rows, short ones, long ones.
        for (std::int64_t& length : numbers.lengths) length = replay == 1 ? std::min(length, size.k / 2) : size.cols;
        const ArrayBytes bytes(problem, numbers);
        arrays.fill(bytes);
        RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
        if (replay == 0) selection.poison(stream);  // later replays find the workspace as the one before left it
        RTOPK_REQUIRE_CUDA(cudaGraphLaunch(executable, stream));
        stream.synchronize();
        ASSERT_EQ(first_difference(on_cpu(problem, matrix.bytes.data(), bytes.view()), selection.result()), "")
            << "replay " << replay << '\n'
            << rtopk::to_string(selection.plan());
      }
      RTOPK_REQUIRE_CUDA(cudaGraphExecDestroy(executable));
      RTOPK_REQUIRE_CUDA(cudaGraphDestroy(graph));
    }
  }
}

/// Blocks a stream until it is opened. Opens by itself after so long that waiting for the stream is detected.
class Gate {
 public:
  void close(cudaStream_t stream) { EXPECT_EQ(cudaLaunchHostFunc(stream, &Gate::wait, this), cudaSuccess); }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] bool was_forced() {
    const std::lock_guard lock(mutex_);
    return forced_;
  }

 private:
  static void CUDART_CB wait(void* self) {
    auto& gate = *static_cast<Gate*>(self);
    std::unique_lock lock(gate.mutex_);
    gate.forced_ = !gate.changed_.wait_for(lock, std::chrono::seconds(10), [&gate] { return gate.open_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  bool forced_ = false;
};

TEST_F(Cuda, RunDoesNotWait) {
  Random random(seed() + 101);
  for (const Size& size : kSizes) {
    const Matrix matrix = matrix_of(size, rtopk::DType::f32, random);
    const rtopk::Problem problem = problem_for(matrix, size.k);
    const CudaSelection selection(problem);
    const DeviceBuffer input(matrix.bytes.size());
    input.upload(matrix.bytes);
    RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
    const Stream stream;
    // Kernels are loaded on their first run, and loading may synchronize.
    ASSERT_TRUE(selection.run(input.data(), stream).ok());
    stream.synchronize();
    Gate gate;
    gate.close(stream);
    selection.poison(stream);
    for (int repeat = 0; repeat < 3; ++repeat) EXPECT_TRUE(selection.run(input.data(), stream).ok());
    const cudaError_t state = cudaStreamQuery(stream);
    static_cast<void>(cudaGetLastError());  // clear the error "not ready"
    const bool forced = gate.was_forced();
    gate.open();
    stream.synchronize();
    EXPECT_EQ(state, cudaErrorNotReady) << describe(problem);
    EXPECT_FALSE(forced) << "run() waited for the stream: " << describe(problem);
    EXPECT_EQ(first_difference(on_cpu(problem, matrix.bytes.data()), selection.result()), "") << describe(problem);
  }
}

TEST_F(Cuda, RunAllocatesNoDeviceMemory) {
  Random random(seed() + 102);
  for (const Size& size : kSizes) {
    const Matrix matrix = matrix_of(size, rtopk::DType::f32, random);
    const CudaSelection selection(problem_for(matrix, size.k));
    const DeviceBuffer input(matrix.bytes.size());
    input.upload(matrix.bytes);
    RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
    const Stream stream;
    ASSERT_TRUE(selection.run(input.data(), stream).ok());  // loads the kernels
    stream.synchronize();
    // Other processes may allocate or free on the same GPU in between. An allocation by run() would show every time.
    bool stays = false;
    for (int attempt = 0; attempt < 20 && !stays; ++attempt) {
      std::size_t before = 0;
      std::size_t during = 0;
      std::size_t after = 0;
      std::size_t total = 0;
      RTOPK_REQUIRE_CUDA(cudaMemGetInfo(&before, &total));
      for (int repeat = 0; repeat < 20; ++repeat) ASSERT_TRUE(selection.run(input.data(), stream).ok());
      RTOPK_REQUIRE_CUDA(cudaMemGetInfo(&during, &total));
      stream.synchronize();
      RTOPK_REQUIRE_CUDA(cudaMemGetInfo(&after, &total));
      stays = during == before && after == before;
    }
    EXPECT_TRUE(stays) << rtopk::to_string(selection.plan());
  }
}

TEST_F(Cuda, TheSameBitsEveryTime) {
  Random random(seed() + 103);
  for (const Size& size : kSizes) {
    // Many ties: detects races between them.
    for (const Pattern pattern : {Pattern::normal, Pattern::quantised}) {
      const Matrix matrix = make_matrix(rtopk::DType::f32, size.rows, size.cols, size.k, pattern, random);
      rtopk::Problem problem = problem_for(matrix, size.k);
      problem.passes = true;
      const CudaSelection selection(problem);
      const DeviceBuffer input(matrix.bytes.size());
      input.upload(matrix.bytes);
      RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
      const Stream stream;
      Bytes first;
      for (int repeat = 0; repeat < 20; ++repeat) {
        selection.poison(stream);
        ASSERT_TRUE(selection.run(input.data(), stream).ok());
        stream.synchronize();
        if (repeat == 0) {
          first = selection.result();
        } else {
          ASSERT_EQ(first_difference(first, selection.result()), "") << "repeat " << repeat << '\n'
                                                                     << rtopk::to_string(selection.plan());
        }
      }
    }
  }
}

TEST_F(Cuda, ManyStreamsAndThreads) {
  constexpr int kCallers = 8;
  Random random(seed() + 104);
  std::vector<std::string> wrong(kCallers);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    const std::uint64_t own_seed = random.bits();
    callers.emplace_back([&wrong, caller, own_seed] {
      Random own(own_seed);
      std::string& found = wrong[static_cast<std::size_t>(caller)];
      for (std::int64_t left = scaled(12); left > 0 && found.empty(); --left) {
        const Size size = kSizes[(caller + left) % 7];
        const Matrix matrix = make_mixed_matrix(own.pick(kDTypes), size.rows, size.cols, size.k, own);
        rtopk::Problem problem = problem_for(matrix, size.k);
        problem.direction = own.pick(kDirections);
        problem.order = own.pick(kOrders);
        const Bytes expected = on_cpu(problem, matrix.bytes.data());
        const DeviceBuffer input(matrix.bytes.size());
        input.upload(matrix.bytes);
        if (cudaStreamSynchronize(cudaStreamLegacy) != cudaSuccess) found = "cudaStreamSynchronize";
        // Two streams at a time, each with its own memory, and many runs in each.
        const Stream streams[2];
        const CudaSelection selections[2] = {CudaSelection(problem), CudaSelection(problem)};
        for (int repeat = 0; repeat < 10; ++repeat) {
          for (const int i : {0, 1}) {
            selections[i].poison(streams[i]);
            const rtopk::Status status = selections[i].run(input.data(), streams[i]);
            if (!status.ok()) found = status.text();
          }
        }
        for (const int i : {0, 1}) {
          streams[i].synchronize();
          const std::string difference = first_difference(expected, selections[i].result());
          if (!difference.empty()) found = difference + ": " + describe(problem) + '\n' + matrix.description;
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::string& found : wrong) EXPECT_EQ(found, "");
}

TEST_F(Cuda, OnePlanOnManyStreams) {
  Random random(seed() + 105);
  for (const Size& size : kSizes) {
    const Matrix matrix = matrix_of(size, rtopk::DType::bf16, random);
    const rtopk::Problem problem = problem_for(matrix, size.k);
    const Bytes expected = on_cpu(problem, matrix.bytes.data());
    const DeviceBuffer input(matrix.bytes.size());
    input.upload(matrix.bytes);
    RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
    const Stream streams[4];
    std::vector<std::unique_ptr<CudaSelection>> selections;
    for (const Stream& stream : streams) {
      selections.push_back(std::make_unique<CudaSelection>(problem));
      selections.back()->poison(stream);
    }
    for (int repeat = 0; repeat < 5; ++repeat) {
      for (std::size_t i = 0; i < 4; ++i) ASSERT_TRUE(selections[i]->run(input.data(), streams[i]).ok());
    }
    for (std::size_t i = 0; i < 4; ++i) {
      streams[i].synchronize();
      EXPECT_EQ(first_difference(expected, selections[i]->result()), "") << describe(problem);
    }
  }
}

TEST_F(Cuda, TheDefaultStreamWillDo) {
  Random random(seed() + 106);
  const Matrix matrix = matrix_of(kSizes[1], rtopk::DType::f32, random);
  const rtopk::Problem problem = problem_for(matrix, kSizes[1].k);
  const CudaSelection selection(problem);
  const DeviceBuffer input(matrix.bytes.size());
  input.upload(matrix.bytes);
  ASSERT_TRUE(selection.run(input.data(), nullptr).ok());
  RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(first_difference(on_cpu(problem, matrix.bytes.data()), selection.result()), "");
}

// Prints without asserting: the time depends on the machine and its load.
TEST_F(Cuda, WhatARunCostsTheHost) {
  using Clock = std::chrono::steady_clock;
  Random random(seed() + 107);
  for (const Size& size : kSizes) {
    const Matrix matrix = matrix_of(size, rtopk::DType::f32, random);
    const CudaSelection selection(problem_for(matrix, size.k));
    const DeviceBuffer input(matrix.bytes.size());
    input.upload(matrix.bytes);
    RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
    const Stream stream;
    ASSERT_TRUE(selection.run(input.data(), stream).ok());
    std::vector<double> microseconds;
    for (int repeat = 0; repeat < 300; ++repeat) {
      if (repeat % 20 == 0) stream.synchronize();  // a full queue would block the host
      const Clock::time_point start = Clock::now();
      ASSERT_TRUE(selection.run(input.data(), stream).ok());
      microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
    stream.synchronize();
    std::sort(microseconds.begin(), microseconds.end());
    std::printf("  %lld x %lld, k=%lld (%s): run() takes %.2f us of the host's time\n",
                static_cast<long long>(size.rows), static_cast<long long>(size.cols), static_cast<long long>(size.k),
                rtopk::name(selection.plan().family), microseconds[microseconds.size() / 2]);
  }
}

TEST_F(Cuda, RefusesWhatItCannotDo) {
  rtopk::Traits traits;
  EXPECT_EQ(rtopk::query_traits({rtopk::DeviceKind::cuda, 1000}, traits).code(), rtopk::StatusCode::invalid_argument);
  EXPECT_EQ(rtopk::query_traits({rtopk::DeviceKind::cuda, -1}, traits).code(), rtopk::StatusCode::invalid_argument);
  rtopk::Problem problem;
  problem.rows = 10;
  problem.cols = 100;
  problem.k = 5;
  problem.device = {rtopk::DeviceKind::cuda, 1000};
  rtopk::Plan plan;
  EXPECT_EQ(rtopk::make_plan(problem, plan).code(), rtopk::StatusCode::invalid_argument);

  const CudaSelection selection(problem_for(Matrix{rtopk::DType::f32, 10, 100, {}, ""}, 5));
  const DeviceBuffer input(10 * 100 * 4);
  const auto code_of = [&](const rtopk::Plan& changed, const void* matrix, const rtopk::Output& output) {
    return rtopk::run(changed, matrix, output, selection.workspace()).code();
  };
  rtopk::Output output = selection.output();
  EXPECT_EQ(code_of(selection.plan(), nullptr, output), rtopk::StatusCode::invalid_argument);
  EXPECT_EQ(code_of(selection.plan(), input.at(2), output), rtopk::StatusCode::invalid_argument);
  output.values = nullptr;
  EXPECT_EQ(code_of(selection.plan(), input.data(), output), rtopk::StatusCode::invalid_argument);
  output.values = input.data();
  EXPECT_EQ(code_of(selection.plan(), input.data(), output), rtopk::StatusCode::invalid_argument);
  rtopk::Plan of_the_cpu = selection.plan();
  of_the_cpu.family = rtopk::Family::cpu_row;
  EXPECT_EQ(code_of(of_the_cpu, input.data(), selection.output()), rtopk::StatusCode::invalid_argument);

  // A refused call must leave no CUDA error for the caller's own checks.
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
}

TEST_F(Cuda, RefusesAWorkspaceThatIsTooSmall) {
  bool found = false;
  for (const Size& size : kSizes) {
    rtopk::Problem problem;
    problem.rows = size.rows;
    problem.cols = size.cols;
    problem.k = size.k;
    const CudaSelection selection(problem);
    const std::size_t needed = selection.plan().workspace_bytes;
    if (needed == 0) continue;
    found = true;
    const DeviceBuffer input(static_cast<std::size_t>(size.rows * size.cols) * 4);
    const DeviceBuffer workspace(needed);
    const auto code_with = [&](rtopk::Workspace given) {
      return rtopk::run(selection.plan(), input.data(), selection.output(), given).code();
    };
    EXPECT_EQ(code_with({workspace.data(), needed - 1}), rtopk::StatusCode::workspace_too_small);
    EXPECT_EQ(code_with({nullptr, needed}), rtopk::StatusCode::workspace_too_small);
  }
  RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
  if (!found) GTEST_SKIP() << "no plan needs a workspace";
}

}  // namespace
}  // namespace rtopk_test
