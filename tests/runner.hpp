// Everything that can run a selection on this machine, behind one face: the conformance suite loops over runners().
// A new backend joins by adding its Runner there; every test then covers it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rtopk/rtopk.hpp>

namespace rtopk_test {

/// A call in host memory; what the problem does not ask for is empty. A backend with memory of its own copies there and
/// back, and keeps the guards that find writes out of bounds around its copies.
struct Call {
  rtopk::Problem problem{};
  std::span<std::byte> input;
  std::span<std::byte> values;
  std::span<std::byte> indices;
  std::span<std::byte> dense;
  std::span<std::byte> mask;
  std::span<std::byte> passes;

  std::int32_t threads = 1;  ///< Exactly so many, however small the problem.
  const rtopk::Executor* executor = nullptr;
  std::size_t workspace_misalignment = 1;
};

class Runner {
 public:
  virtual ~Runner() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  /// Whether `Order::unsorted` is promised to be ascending indices; if not, the tests compare sets.
  [[nodiscard]] virtual bool unsorted_is_ascending() const = 0;
  /// Makes later calls of run() use this runner's code. Not to be called while another thread runs.
  virtual void activate() const = 0;
  /// Whether it has a way of its own to run this problem; if not, another runner tests the same code.
  [[nodiscard]] virtual bool takes(const rtopk::Problem&) const { return true; }
  /// Plans and runs. Empty on success, else what went wrong.
  [[nodiscard]] virtual std::string run(const Call& call) const = 0;
};

/// All families of a device, which are those whose names begin with the device's name.
std::vector<rtopk::Family> families_of(rtopk::DeviceKind device);

/// Whether `family` takes the problem, and is not the one that make_plan picks.
bool is_another_family(const rtopk::Problem& problem, const rtopk::Traits& traits, rtopk::Family family);

/// Runs a plan, made for the call's problem or changed in any way, with as much workspace as it says. Empty on success; if it was
/// refused, a text that begins with kRefused; else what went wrong.
std::string run_plan(const rtopk::Plan& plan, const Call& call);
inline constexpr const char* kRefused = "run returned status ";

/// The reference, and the CPU backend for every instruction set that this CPU has and this build contains: as planned, with
/// another of the families that can run the problem, and with that for short rows where it can; and the CUDA backend, if there
/// is a GPU.
/// RTOPK_TEST_RUNNERS=cuda (or cpu, or reference) leaves those whose name begins so.
const std::vector<std::unique_ptr<Runner>>& runners();

/// Those of all runners that work on the host's memory, whatever RTOPK_TEST_RUNNERS says: for tests of what copies to
/// a device and back would hide.
const std::vector<const Runner*>& host_runners();

}  // namespace rtopk_test
