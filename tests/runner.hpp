// A common interface for everything that can run a selection on this machine: the conformance suite loops over
// runners(). To test a new backend, add its Runner there; every test then covers it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rtopk/rtopk.hpp>

namespace rtopk_test {

/// A call in host memory. Outputs that the problem does not request are empty. A backend with its own memory copies the
/// data there and back, and puts guards around its copies to detect writes out of bounds.
struct Call {
  rtopk::Problem problem{};
  std::span<std::byte> input;
  std::span<std::byte> values;
  std::span<std::byte> indices;
  std::span<std::byte> dense;
  std::span<std::byte> mask;
  std::span<std::byte> passes;
  std::span<std::byte> thresholds;

  /// The arrays of general rows.
  std::span<std::byte> lengths;
  std::span<std::byte> starts;
  std::span<std::byte> offsets;
  std::span<std::byte> row_k;
  std::span<std::byte> map;
  std::span<std::byte> table_of;

  std::int32_t threads = 1;  ///< Exactly this many, however small the problem.
  const rtopk::Executor* executor = nullptr;
  std::size_t workspace_misalignment = 1;
  std::byte workspace_fill{0x5a};  ///< Content of the workspace: detects code that relies on zeros.
  /// Another call of the same problem. It runs after this one, with the same plan and the workspace as it was left.
  const Call* next = nullptr;
};

class Runner {
 public:
  virtual ~Runner() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  /// True if `Order::unsorted` promises ascending indices. If false, the tests compare sets.
  [[nodiscard]] virtual bool unsorted_is_ascending() const = 0;
  /// Makes later calls of run() use this runner's code. Not thread-safe.
  virtual void activate() const = 0;
  /// False if this runner would execute the same code as another one for this problem.
  [[nodiscard]] virtual bool takes(const rtopk::Problem&) const { return true; }
  /// Plans and runs. Empty on success, else the error.
  [[nodiscard]] virtual std::string run(const Call& call) const = 0;
};

/// All families of a device: those whose names begin with the name of the device.
std::vector<rtopk::Family> families_of(rtopk::DeviceKind device);

/// True if `family` supports the problem and is not the one that make_plan picks.
bool is_another_family(const rtopk::Problem& problem, const rtopk::Traits& traits, rtopk::Family family);

/// Runs a plan, which may have been changed in any way, with as much workspace as it asks for. Empty on success; if
/// the run was refused, a text that begins with kRefused; else the error.
std::string run_plan(const rtopk::Plan& plan, const Call& call);
inline constexpr const char* kRefused = "run returned status ";

/// The reference; the CPU backend for every instruction set of this CPU and this build, with the planned family and
/// with other families that support the problem; and the same for the CUDA backend, if there is a GPU.
/// RTOPK_TEST_RUNNERS=cuda (or cpu, or reference) keeps only the runners whose names begin so.
const std::vector<std::unique_ptr<Runner>>& runners();

/// The runners that work on host memory, whatever RTOPK_TEST_RUNNERS says: for tests that copies to a device and back
/// would defeat.
const std::vector<const Runner*>& host_runners();

}  // namespace rtopk_test
