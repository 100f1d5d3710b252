// Runs selections on a GPU, with guarded device memory.
#include "cuda_runner.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "check.hpp"
#include "matrix.hpp"

namespace rtopk_test {
namespace {

constexpr std::ptrdiff_t kGuardBytes = 512;  // bytes that a warp loads or stores at once
constexpr std::size_t kAlignment = 64;       // the misalignments of a call are relative to this
constexpr std::byte kGuard{0xc3};

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// For compute-sanitizer, which checks the bounds of allocations but not our guards: every part of a call is an
/// allocation that ends where the part ends. Memory that a run must write before it reads stays uninitialised.
bool exact_memory() {
  static const bool wanted = std::getenv("RTOPK_TEST_EXACT_MEMORY") != nullptr;
  return wanted;
}

/// A stream with memory on host and device. Both are reused, because allocating takes longer than most calls.
class Lane {
 public:
  Lane() { require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void reserve(std::size_t bytes) {
    if (bytes <= capacity_) return;
    const std::size_t wanted = std::max(bytes, 2 * capacity_);
    require(cudaFree(std::exchange(device_, nullptr)), "cudaFree");
    require(cudaFreeHost(std::exchange(host_, nullptr)), "cudaFreeHost");
    capacity_ = 0;
    require(cudaMalloc(&device_, wanted), "cudaMalloc");
    require(cudaMallocHost(&host_, wanted), "cudaMallocHost");
    capacity_ = wanted;
  }

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] std::byte* device() const { return static_cast<std::byte*>(device_); }
  [[nodiscard]] std::byte* host() const { return static_cast<std::byte*>(host_); }

 private:
  cudaStream_t stream_ = nullptr;
  void* device_ = nullptr;
  void* host_ = nullptr;
  std::size_t capacity_ = 0;
};

/// The unused lanes. They live until the process ends: a destructor would run after that of the CUDA runtime.
class Lanes {
 public:
  static std::unique_ptr<Lane> take() {
    const std::lock_guard lock(all().mutex_);
    auto& free = all().free_;
    if (free.empty()) return std::make_unique<Lane>();
    std::unique_ptr<Lane> lane = std::move(free.back());
    free.pop_back();
    return lane;
  }
  static void give_back(std::unique_ptr<Lane> lane) {
    const std::lock_guard lock(all().mutex_);
    all().free_.push_back(std::move(lane));
  }

 private:
  static Lanes& all() {
    static Lanes& lanes = *new Lanes;
    return lanes;
  }
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> free_;
};

/// One part of a call's memory.
struct Part {
  enum class Use { input, output, workspace };

  const char* what;
  Use use;
  std::span<std::byte> host;  ///< Copied to the device before the run, and back after it.
  std::size_t misalignment;
  std::vector<std::byte> guard;  ///< Repeated on both sides, in phase with the part.

  std::size_t begin = 0;        ///< Offset in the memory of a lane.
  std::byte* device = nullptr;  ///< Where the part begins.

  /// The guard byte at `distance` from the start of the part; negative before it.
  [[nodiscard]] std::byte guard_at(std::ptrdiff_t distance) const {
    const auto period = static_cast<std::ptrdiff_t>(guard.size());
    return guard[static_cast<std::size_t>((distance % period + period) % period)];
  }
};

/// Parts in the memory of a lane, with guards around each.
class GuardedParts {
 public:
  GuardedParts(std::vector<Part>& parts, Lane& lane) : parts_(parts), lane_(lane) {
    constexpr auto guard = static_cast<std::size_t>(kGuardBytes);
    for (Part& part : parts_) {
      const std::size_t aligned = (bytes_ + guard + kAlignment - 1) / kAlignment * kAlignment;
      part.begin = aligned + part.misalignment;
      bytes_ = part.begin + part.host.size() + guard;
    }
    lane_.reserve(bytes_);
    for (Part& part : parts_) part.device = lane_.device() + part.begin;
  }

  void upload() {
    if (bytes_ == 0) return;
    std::memset(lane_.host(), std::to_integer<int>(kGuard), bytes_);
    for (const Part& part : parts_) {
      std::byte* at = lane_.host() + part.begin;
      const auto size = static_cast<std::ptrdiff_t>(part.host.size());
      for (std::ptrdiff_t i = 1; i <= kGuardBytes; ++i) at[-i] = part.guard_at(-i);
      for (std::ptrdiff_t i = size; i < size + kGuardBytes; ++i) at[i] = part.guard_at(i);
      if (size > 0) std::memcpy(at, part.host.data(), part.host.size());
    }
    require(cudaMemcpyAsync(lane_.device(), lane_.host(), bytes_, cudaMemcpyHostToDevice, lane_.stream()), "upload");
  }

  /// Empty, or the guard that was overwritten.
  [[nodiscard]] std::string download() {
    if (bytes_ > 0) {
      require(cudaMemcpyAsync(lane_.host(), lane_.device(), bytes_, cudaMemcpyDeviceToHost, lane_.stream()),
              "download");
    }
    require(cudaStreamSynchronize(lane_.stream()), "the run failed on the device");
    for (const Part& part : parts_) {
      const std::byte* at = lane_.host() + part.begin;
      const auto size = static_cast<std::ptrdiff_t>(part.host.size());
      for (std::ptrdiff_t i = -kGuardBytes; i < size + kGuardBytes; ++i) {
        if (i == 0) i = size;
        if (at[i] != part.guard_at(i)) {
          return std::string("out of bounds of ") + part.what + " on the device: byte " + std::to_string(i) + " of " +
                 std::to_string(size) + " was written";
        }
      }
      if (size > 0) std::memcpy(part.host.data(), at, part.host.size());
    }
    return "";
  }

 private:
  std::vector<Part>& parts_;
  Lane& lane_;
  std::size_t bytes_ = 0;
};

/// Parts in separate allocations.
class ExactParts {
 public:
  ExactParts(std::vector<Part>& parts, Lane& lane) : parts_(parts), lane_(lane) {
    for (Part& part : parts_) {
      void* memory = nullptr;
      require(cudaMalloc(&memory, std::max<std::size_t>(part.misalignment + part.host.size(), 1)), "cudaMalloc");
      allocations_.push_back(memory);
      part.device = static_cast<std::byte*>(memory) + part.misalignment;
    }
  }
  ~ExactParts() {
    for (void* memory : allocations_) static_cast<void>(cudaFree(memory));
  }
  ExactParts(const ExactParts&) = delete;
  ExactParts& operator=(const ExactParts&) = delete;

  void upload() {
    for (const Part& part : parts_) {
      if (part.use != Part::Use::input || part.host.empty()) continue;
      require(cudaMemcpyAsync(part.device, part.host.data(), part.host.size(), cudaMemcpyHostToDevice, lane_.stream()),
              "upload");
    }
  }

  [[nodiscard]] std::string download() {
    for (const Part& part : parts_) {
      if (part.use == Part::Use::workspace || part.host.empty()) continue;
      require(cudaMemcpyAsync(part.host.data(), part.device, part.host.size(), cudaMemcpyDeviceToHost, lane_.stream()),
              "download");
    }
    require(cudaStreamSynchronize(lane_.stream()), "the run failed on the device");
    return "";
  }

 private:
  std::vector<Part>& parts_;
  Lane& lane_;
  std::vector<void*> allocations_;
};

std::size_t misalignment_of(std::span<std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlignment;
}

std::string refused(const char* what, const rtopk::Status& status) {
  return std::string(what) + " returned status " + std::to_string(static_cast<int>(status.code())) + ": " +
         status.text();
}

constexpr std::size_t kPartsOfCall = 13;

/// Adds the parts of a call in the order in which run_call() takes them.
void add_parts(const rtopk::Problem& problem, const Call& call, std::vector<Part>& parts) {
  const auto add = [&parts](const char* what, Part::Use use, std::span<std::byte> bytes) {
    parts.push_back({what, use, bytes, misalignment_of(bytes), {kGuard}});
  };
  parts.push_back({"input", Part::Use::input, call.input, misalignment_of(call.input),
                   bait(problem.dtype, problem.direction, problem.magnitude)});
  add("values", Part::Use::output, call.values);
  add("indices", Part::Use::output, call.indices);
  add("dense", Part::Use::output, call.dense);
  add("mask", Part::Use::output, call.mask);
  add("passes", Part::Use::output, call.passes);
  add("thresholds", Part::Use::output, call.thresholds);
  add("lengths", Part::Use::input, call.lengths);
  add("starts", Part::Use::input, call.starts);
  add("offsets", Part::Use::input, call.offsets);
  add("k of rows", Part::Use::input, call.row_k);
  add("map", Part::Use::input, call.map);
  add("table_of", Part::Use::input, call.table_of);
}

rtopk::Status run_call(const rtopk::Plan& plan, const Part* parts, rtopk::Workspace workspace, cudaStream_t stream) {
  rtopk::Output output;
  output.values = parts[1].device;
  output.indices = parts[2].device;
  output.dense = parts[3].device;
  output.mask = reinterpret_cast<std::uint8_t*>(parts[4].device);
  output.passes = reinterpret_cast<std::int32_t*>(parts[5].device);
  output.thresholds = parts[6].device;
  const rtopk::RowArrays arrays{parts[7].device,  parts[8].device,  parts[9].device,
                                parts[10].device, parts[11].device, parts[12].device};
  rtopk::Launch launch;
  launch.stream = stream;
  return rtopk::run(plan, parts[0].device, output, workspace, launch, arrays);
}

template <typename Parts>
std::string run_with(const rtopk::Plan& plan, const Call& call, Lane& lane) {
  std::vector<std::byte> workspace(plan.workspace_bytes, call.workspace_fill);
  std::vector<Part> parts;
  parts.push_back({"workspace", Part::Use::workspace, workspace, call.workspace_misalignment % kAlignment, {kGuard}});
  for (const Call* one = &call; one != nullptr; one = one->next) add_parts(plan.problem, *one, parts);

  Parts memory(parts, lane);
  memory.upload();
  rtopk::Status status;
  for (std::size_t first = 1; first < parts.size() && status.ok(); first += kPartsOfCall) {
    status = run_call(plan, &parts[first], {parts[0].device, workspace.size()}, lane.stream());
  }
  std::string damage = memory.download();
  return status.ok() ? damage : refused("run", status);
}

/// Makes batches of several rows, so that rows learn from previous ones.
void lengthen_batches(rtopk::Plan& plan, std::int64_t rows) {
  if (plan.family == rtopk::Family::cuda_warp) {
    const std::int64_t at_once = plan.threads / plan.lanes_per_row;
    constexpr std::int64_t kMaxTurns = 32;
    plan.rows_per_block = at_once * std::min(rows / at_once + 1, kMaxTurns);
  } else {
    plan.rows_per_block = 2 * (rows / 8 + 1);  // for the two warps of a block
  }
  plan.blocks = (rows + plan.rows_per_block - 1) / plan.rows_per_block;
}

/// More blocks for a row than it needs, up to 8. Fewer might have too little shared memory.
void share_rows(rtopk::Plan& plan, std::int64_t rows, const rtopk::Traits& traits) {
  if (traits.compute_capability >= 90) plan.parts = std::max(plan.parts, std::int64_t{1} << (plan.problem.cols % 4));
  // The list of candidates keeps its size: the tiles of the larger blocks are what needs more memory.
  constexpr std::size_t kBytesOfMoreThreads = 32 << 10;
  constexpr std::int64_t kKeptFree = 1024;  // general rows need some
  const auto most_bytes = static_cast<std::size_t>(traits.shared_bytes_per_block - kKeptFree);
  if (plan.problem.cols % 3 == 0 && plan.threads == 256 && plan.shared_bytes + kBytesOfMoreThreads <= most_bytes) {
    plan.threads = 512;
    plan.shared_bytes += kBytesOfMoreThreads;
  }
  plan.lanes_per_row = static_cast<std::int32_t>(plan.parts) * plan.threads;
  plan.blocks = rows * plan.parts;
}

/// Fewer threads, and less room to keep a row for the second read. With too little the row is searched digit by digit.
void keep_less(rtopk::Plan& plan) {
  if (plan.parts > 1) return;
  if (plan.problem.cols % 3 == 0 && plan.threads > 128) plan.threads = plan.lanes_per_row = 128;
  const auto less = static_cast<std::size_t>(plan.problem.cols % 4) * plan.shared_bytes / 4;
  plan.shared_bytes -= less / 16 * 16;
}

/// Makes three chunks, the last one shorter, from what would be one.
void split_chunks(rtopk::Plan& plan) {
  plan.chunk_rows = (plan.problem.rows + 2) / 3;
  if (plan.family == rtopk::Family::cuda_cluster || plan.family == rtopk::Family::cuda_block) {
    plan.blocks = plan.chunk_rows * std::max<std::int64_t>(plan.parts, 1);
  }
}

/// Runs the family that make_plan picks, or a given one. `splits`: in several chunks, where rows are copied in one.
class CudaRunner final : public Runner {
 public:
  CudaRunner(const rtopk::Traits& traits, std::optional<rtopk::Family> family, bool splits)
      : traits_(traits), family_(family), splits_(splits) {}

  [[nodiscard]] std::string name() const override {
    if (family_) return std::string("cuda, ") + rtopk::name(*family_);
    return splits_ ? "cuda, chunks" : "cuda";
  }
  [[nodiscard]] bool unsorted_is_ascending() const override { return true; }
  void activate() const override {}

  [[nodiscard]] bool takes(const rtopk::Problem& problem) const override {
    if (family_) return is_another_family(on_gpu(problem), traits_, *family_);
    rtopk::Plan plan;
    return !splits_ || (rtopk::make_plan(on_gpu(problem), traits_, plan).ok() && plan.chunk_rows > 1);
  }

  [[nodiscard]] std::string run(const Call& call) const override {
    const rtopk::Problem problem = on_gpu(call.problem);
    rtopk::Plan plan;
    rtopk::Traits traits = traits_;
    // On a GPU with much to do, lists of candidates are short: they are pruned.
    if (family_ == rtopk::Family::cuda_cluster) traits.multiprocessors = 1;
    const rtopk::Status status =
        family_ ? rtopk::make_plan(problem, traits, *family_, plan) : rtopk::make_plan(problem, traits_, plan);
    if (!status.ok()) return refused("make_plan", status);
    if (splits_ && plan.chunk_rows > 1) split_chunks(plan);
    // Plans of a given family are changed to cover more paths of its kernels.
    if (family_) {
      const std::int64_t rows = plan.chunk_rows > 0 ? plan.chunk_rows : std::max<std::int64_t>(problem.rows, 1);
      const bool learns = *family_ == rtopk::Family::cuda_filter || *family_ == rtopk::Family::cuda_warp;
      if (learns) lengthen_batches(plan, rows);
      if (*family_ == rtopk::Family::cuda_cluster) share_rows(plan, rows, traits_);
      if (*family_ == rtopk::Family::cuda_radix) keep_less(plan);
    }
    return run_on_cuda(plan, call);
  }

 private:
  static rtopk::Problem on_gpu(rtopk::Problem problem) {
    problem.device = {rtopk::DeviceKind::cuda, 0};
    return problem;
  }

  rtopk::Traits traits_;
  std::optional<rtopk::Family> family_;
  bool splits_;
};

/// Runs cuda_block with 2, 4 or 8 blocks for each row, where make_plan would give it fewer.
class SharedRowsRunner final : public Runner {
 public:
  explicit SharedRowsRunner(const rtopk::Traits& traits) : traits_(traits) {}

  [[nodiscard]] std::string name() const override { return "cuda, cuda_block, shared rows"; }
  [[nodiscard]] bool unsorted_is_ascending() const override { return true; }
  void activate() const override {}

  [[nodiscard]] bool takes(const rtopk::Problem& problem) const override {
    rtopk::Plan plan;
    return make(problem, plan).ok() && plan.parts > 1;
  }

  [[nodiscard]] std::string run(const Call& call) const override {
    rtopk::Plan plan;
    const rtopk::Status status = make(call.problem, plan);
    return status.ok() ? run_on_cuda(plan, call) : refused("make_plan", status);
  }

 private:
  /// Plans for a GPU that has more multiprocessors than there are rows.
  rtopk::Status make(rtopk::Problem problem, rtopk::Plan& plan) const {
    problem.device = {rtopk::DeviceKind::cuda, 0};
    rtopk::Traits traits = traits_;
    const std::int64_t rows = std::clamp<std::int64_t>(problem.rows, 1, 1 << 20);
    traits.multiprocessors = static_cast<std::int32_t>(rows << problem.cols % 3);
    return rtopk::make_plan(problem, traits, rtopk::Family::cuda_block, plan);
  }

  rtopk::Traits traits_;
};

}  // namespace

std::string run_on_cuda(const rtopk::Plan& plan, const Call& call) {
  std::string wrong;
  try {
    std::unique_ptr<Lane> lane = Lanes::take();
    wrong = exact_memory() ? run_with<ExactParts>(plan, call, *lane) : run_with<GuardedParts>(plan, call, *lane);
    Lanes::give_back(std::move(lane));
  } catch (const std::runtime_error& error) {
    wrong = error.what();
  }
  return wrong.empty() ? "" : wrong + "\n  plan: " + rtopk::to_string(plan);
}

void add_cuda_runners(std::vector<std::unique_ptr<Runner>>& all) {
  rtopk::Traits traits;
  if (!rtopk::query_traits({rtopk::DeviceKind::cuda, 0}, traits).ok()) return;
  all.push_back(std::make_unique<CudaRunner>(traits, std::nullopt, false));
  all.push_back(std::make_unique<CudaRunner>(traits, std::nullopt, true));
  for (const rtopk::Family family : families_of(rtopk::DeviceKind::cuda)) {
    all.push_back(std::make_unique<CudaRunner>(traits, family, true));
  }
  if (traits.compute_capability >= 90) all.push_back(std::make_unique<SharedRowsRunner>(traits));
}

}  // namespace rtopk_test
