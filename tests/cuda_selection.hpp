// A selection on the GPU, step by step, for tests that check more than its result.
#pragma once

#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <cstring>
#include <vector>

#include <rtopk/rtopk.hpp>

#include "check.hpp"

namespace rtopk_test {

#define RTOPK_REQUIRE_CUDA(call) ASSERT_EQ(call, cudaSuccess)

inline constexpr rtopk::Device kGpu{rtopk::DeviceKind::cuda, 0};

/// Skips the test if there is no GPU.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    rtopk::Traits traits;
    const rtopk::Status status = rtopk::query_traits(kGpu, traits);
    if (!status.ok()) GTEST_SKIP() << status.text();
  }
};

class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    EXPECT_EQ(cudaMalloc(&data_, bytes), cudaSuccess) << bytes << " bytes";
  }
  ~DeviceBuffer() { static_cast<void>(cudaFree(data_)); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(data_) + offset; }
  [[nodiscard]] std::size_t size() const { return bytes_; }

  void upload(const void* from, std::size_t bytes) const {
    EXPECT_EQ(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice), cudaSuccess);
  }
  void upload(const std::vector<std::byte>& bytes) const { upload(bytes.data(), bytes.size()); }
  [[nodiscard]] std::vector<std::byte> download(std::size_t offset, std::size_t bytes) const {
    std::vector<std::byte> copy(bytes);
    if (bytes == 0) return copy;
    EXPECT_EQ(cudaMemcpy(copy.data(), at(offset), bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return copy;
  }
  [[nodiscard]] std::vector<std::byte> download() const { return download(0, bytes_); }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // NOLINTNEXTLINE(google-explicit-constructor): it is one.
  operator cudaStream_t() const { return stream_; }
  void synchronize() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Bytes of a problem's outputs.
struct OutputBytes {
  std::size_t values = 0, indices = 0, dense = 0, mask = 0, passes = 0, thresholds = 0;

  explicit OutputBytes(const rtopk::Problem& p) {
    const auto rows = static_cast<std::size_t>(p.rows);
    const auto selected = rows * static_cast<std::size_t>(p.k);
    const auto elements = rows * static_cast<std::size_t>(p.cols);
    const bool pairs = p.form == rtopk::Form::pairs;
    const bool cbsr = p.form == rtopk::Form::cbsr;
    if (cbsr || (pairs && p.values)) values = selected * rtopk::size_of(p.dtype);
    if (cbsr || (pairs && p.indices)) indices = selected * rtopk::size_of(p.index_type);
    if (p.form == rtopk::Form::dense) dense = elements * rtopk::size_of(p.dtype);
    if (p.form == rtopk::Form::mask) mask = elements;
    if (p.passes) passes = rows * 4;
    if (p.thresholds) thresholds = rows * rtopk::size_of(p.dtype);
  }
};

/// All outputs of a call, concatenated.
using Bytes = std::vector<std::byte>;

/// A plan for the GPU with its output memory and workspace.
class CudaSelection {
 public:
  explicit CudaSelection(const rtopk::Problem& problem) : CudaSelection(OutputBytes(problem), planned(problem)) {}

  [[nodiscard]] const rtopk::Plan& plan() const { return plan_; }
  [[nodiscard]] const rtopk::Output& output() const { return output_; }
  [[nodiscard]] rtopk::Workspace workspace() const { return {workspace_.data(), workspace_.size()}; }
  [[nodiscard]] const DeviceBuffer& values() const { return values_; }
  [[nodiscard]] const DeviceBuffer& indices() const { return indices_; }
  [[nodiscard]] const DeviceBuffer& dense() const { return dense_; }

  /// Queues overwriting of all outputs and of the workspace.
  void poison(cudaStream_t stream) const {
    for (const DeviceBuffer* buffer : {&values_, &indices_, &dense_, &mask_, &passes_, &thresholds_, &workspace_}) {
      if (buffer->size() == 0) continue;
      EXPECT_EQ(cudaMemsetAsync(buffer->data(), 0xa5, buffer->size(), stream), cudaSuccess);
    }
  }

  [[nodiscard]] rtopk::Status run(const void* input, cudaStream_t stream, const rtopk::RowArrays& arrays = {}) const {
    rtopk::Launch launch;
    launch.stream = stream;
    return rtopk::run(plan_, input, output_, workspace(), launch, arrays);
  }

  /// Call it after synchronizing the stream.
  [[nodiscard]] Bytes result() const {
    Bytes all;
    for (const DeviceBuffer* buffer : {&values_, &indices_, &dense_, &mask_, &passes_, &thresholds_}) {
      const Bytes bytes = buffer->download();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

 private:
  static rtopk::Plan planned(rtopk::Problem problem) {
    problem.device = kGpu;
    rtopk::Plan plan;
    const rtopk::Status status = rtopk::make_plan(problem, plan);
    EXPECT_TRUE(status.ok()) << status.text();
    return plan;
  }
  CudaSelection(const OutputBytes& bytes, const rtopk::Plan& plan)
      : plan_(plan),
        values_(bytes.values),
        indices_(bytes.indices),
        dense_(bytes.dense),
        mask_(bytes.mask),
        passes_(bytes.passes),
        thresholds_(bytes.thresholds),
        workspace_(plan.workspace_bytes) {
    output_.values = values_.data();
    output_.indices = indices_.data();
    output_.dense = dense_.data();
    output_.mask = static_cast<std::uint8_t*>(mask_.data());
    output_.passes = static_cast<std::int32_t*>(passes_.data());
    output_.thresholds = thresholds_.data();
  }

  rtopk::Plan plan_;
  DeviceBuffer values_, indices_, dense_, mask_, passes_, thresholds_, workspace_;
  rtopk::Output output_;
};

/// The output of the CPU backend for the same call.
inline Bytes on_cpu(const rtopk::Problem& problem, const void* input, const rtopk::RowArrays& arrays = {}) {
  rtopk::Plan plan;
  const rtopk::Status planned = rtopk::make_plan(problem, plan);
  EXPECT_TRUE(planned.ok()) << planned.text();
  const OutputBytes bytes(problem);
  Bytes workspace(plan.workspace_bytes);
  Bytes values(bytes.values);
  Bytes indices(bytes.indices);
  Bytes dense(bytes.dense);
  Bytes mask(bytes.mask);
  Bytes passes(bytes.passes);
  Bytes thresholds(bytes.thresholds);
  rtopk::Output output;
  output.values = values.data();
  output.indices = indices.data();
  output.dense = dense.data();
  output.mask = reinterpret_cast<std::uint8_t*>(mask.data());
  output.passes = reinterpret_cast<std::int32_t*>(passes.data());
  output.thresholds = thresholds.data();
  const rtopk::Status status = rtopk::run(plan, input, output, {workspace.data(), workspace.size()}, {}, arrays);
  EXPECT_TRUE(status.ok()) << status.text();
  Bytes all;
  for (const Bytes* part : {&values, &indices, &dense, &mask, &passes, &thresholds})
    all.insert(all.end(), part->begin(), part->end());
  return all;
}

/// The same on the GPU.
inline Bytes on_gpu(const rtopk::Problem& problem, const void* input, std::size_t input_bytes) {
  const DeviceBuffer matrix(input_bytes);
  matrix.upload(input, input_bytes);
  const Stream stream;
  const CudaSelection selection(problem);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // the stream does not wait for the upload
  selection.poison(stream);
  const rtopk::Status status = selection.run(matrix.data(), stream);
  EXPECT_TRUE(status.ok()) << status.text();
  stream.synchronize();
  return selection.result();
}

/// The first difference, for the message of a failure.
inline std::string first_difference(const Bytes& expected, const Bytes& actual) {
  if (expected.size() != actual.size()) {
    return std::to_string(actual.size()) + " bytes instead of " + std::to_string(expected.size());
  }
  if (expected.empty() || std::memcmp(expected.data(), actual.data(), expected.size()) == 0) return "";
  std::size_t i = 0;
  while (expected[i] == actual[i]) ++i;
  return "byte " + std::to_string(i) + " of " + std::to_string(expected.size()) + " differs";
}

}  // namespace rtopk_test
