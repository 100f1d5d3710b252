// select_on_gpu: reading, copying to the GPU, selecting, copying back and writing, all at the same time.
//
// A chunk has a slot: pinned memory, memory on the GPU, and a stream. One thread fills the slots in turn (it reads, and
// queues the copies and the selection on the slot's stream); the calling thread waits for them in the same order and
// hands over their results. With three slots one chunk is being read, one is on the GPU, and one is being written.
#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <rtopk/rtopk.hpp>

#include "command_line/options.hpp"
#include "rounding.hpp"
#include "selection/chunked.hpp"
#include "system/blocked_signals.hpp"
#include "system/cuda_device.hpp"
#include "terminal/failure.hpp"
#include "terminal/text.hpp"

namespace rtopk::tool {
namespace {

// Input and results of one chunk: large enough that a copy runs at the full speed of the bus and a kernel fills the
// GPU, small enough that a file of some hundred megabytes has several and pinning the memory takes little time.
constexpr std::uint64_t chunk_bytes = std::uint64_t{64} << 20;
constexpr std::int64_t max_slots = 3;
constexpr double usable_share_of_free_memory = 0.9;  // leaves room for the runtime and for rounded sizes

/// What the rows of a chunk are read from.
struct Input {
  MatrixSource& source;
  std::vector<RowFiles::Array> arrays;  ///< Those of general rows.
  bool is_flat;                         ///< Rows are segments of it, and all of them are one chunk.

  Input(MatrixSource& matrix, const RowFiles* files)
      : source(matrix),
        arrays(files == nullptr ? std::vector<RowFiles::Array>{} : files->arrays()),
        is_flat(files != nullptr && files->is_flat()) {}

  [[nodiscard]] std::size_t bytes(std::int64_t rows) const noexcept {
    return static_cast<std::size_t>(is_flat ? 1 : rows) * source.row_bytes();
  }
  [[nodiscard]] std::size_t bytes(const RowFiles::Array& array, std::int64_t rows) const noexcept {
    return is_flat ? array.bytes : static_cast<std::size_t>(rows) * array.row_bytes;
  }
  /// Of all that `rows` rows need but the workspace.
  [[nodiscard]] std::uint64_t bytes_of(const Problem& problem, std::int64_t rows) const {
    std::uint64_t all = bytes(rows) + static_cast<std::uint64_t>(rows) * result_bytes_per_row(problem);
    for (const RowFiles::Array& array : arrays) all += bytes(array, rows);
    return all;
  }
};

/// How the rows are cut into chunks, and what a slot needs.
struct Cut {
  Plan whole;  ///< The plan of every chunk but the last.
  Plan last;
  std::int64_t chunks = 0;
  std::int64_t slots = 0;  ///< 0 if not even one fits on the GPU.
  std::uint64_t slot_bytes = 0;

  [[nodiscard]] std::int64_t chunk_rows() const noexcept { return whole.problem.rows; }
  /// The last chunk may need more than a whole one: with fewer rows another family may run.
  [[nodiscard]] std::size_t workspace_bytes() const noexcept {
    return std::max(whole.workspace_bytes, last.workspace_bytes);
  }
};

Cut cut_into(std::int64_t chunk_rows, const Problem& problem, const Traits& traits, const Input& input,
             std::uint64_t free_bytes) {
  Cut cut;
  cut.whole = plan_for_rows(problem, traits, chunk_rows);
  cut.chunks = ceil_div(problem.rows, chunk_rows);
  cut.last = plan_for_rows(problem, traits, problem.rows - (cut.chunks - 1) * chunk_rows);
  cut.slot_bytes = input.bytes_of(problem, chunk_rows) + cut.workspace_bytes();
  const auto fit =
      static_cast<std::uint64_t>(static_cast<double>(free_bytes) * usable_share_of_free_memory) / cut.slot_bytes;
  cut.slots = std::min({max_slots, cut.chunks, static_cast<std::int64_t>(std::min<std::uint64_t>(fit, max_slots))});
  return cut;
}

/// Uses `asked_rows` if it is not 0. Otherwise a chunk has chunk_bytes, or less if two chunks do not fit on the GPU.
Cut choose_cut(std::int64_t asked_rows, const Problem& problem, const Traits& traits, const Input& input) {
  const std::uint64_t free_bytes = gpu::free_memory();
  if (input.is_flat) asked_rows = problem.rows;
  const auto good_rows = static_cast<std::int64_t>(chunk_bytes / input.bytes_of(problem, 1));
  std::int64_t rows = std::clamp<std::int64_t>(asked_rows > 0 ? asked_rows : good_rows, 1, problem.rows);
  Cut cut = cut_into(rows, problem, traits, input, free_bytes);
  while (asked_rows == 0 && rows > 1 && cut.slots < std::min<std::int64_t>(2, cut.chunks)) {
    rows /= 2;
    cut = cut_into(rows, problem, traits, input, free_bytes);
  }
  if (cut.slots == 0) {
    fail("not enough memory on {}: {} {} {}, {} are free; accepted: {}", device_text(problem.device), rows,
         rows == 1 ? "row at a time needs" : "rows at a time need", bytes_text(static_cast<double>(cut.slot_bytes)),
         bytes_text(static_cast<double>(free_bytes)),
         input.is_flat ? "--device cpu"
         : rows > 1    ? "a smaller --chunk-rows"
                       : "--device cpu, or shorter rows");
  }
  return cut;
}

/// The memory and the stream that one chunk uses.
struct Slot {
  Slot(const Problem& problem, const Cut& cut, const Input& input)
      : host_input(gpu::pinned_bytes(input.bytes(cut.chunk_rows()))),
        device_input(gpu::device_bytes(input.bytes(cut.chunk_rows()))),
        workspace(gpu::device_bytes(cut.workspace_bytes())),
        host_results(problem, cut.chunk_rows(), gpu::pinned_bytes),
        device_results(problem, cut.chunk_rows(), gpu::device_bytes) {
    for (const RowFiles::Array& array : input.arrays) {
      arrays.push_back(gpu::device_bytes(input.bytes(array, cut.chunk_rows())));
    }
  }

  OwnedBytes host_input;
  OwnedBytes device_input;
  OwnedBytes workspace;
  std::vector<OwnedBytes> arrays;  ///< Those of general rows.
  ResultBuffers host_results;
  ResultBuffers device_results;
  gpu::Event select_begin;
  gpu::Event select_end;
  gpu::Event arrived;  ///< Reached when the results are in host memory.
  gpu::Stream stream;  ///< Declared last, so destroyed first: waits for work on the memory above.
};

/// How far the two threads have come. Either one can stop both, with or without an error.
class Turns {
 public:
  explicit Turns(std::int64_t slots) : slots_(slots) {}

  /// Waits until the slot of chunk `chunk` is free. False: stop.
  bool wait_until_free(std::int64_t chunk) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || chunk - taken_ < slots_; });
    return !stopped_;
  }
  /// Waits until chunk `chunk` is queued. False: stop.
  bool wait_until_queued(std::int64_t chunk) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || chunk < queued_; });
    return !stopped_;
  }
  void one_was_queued() { count_up(queued_); }
  void one_was_taken() { count_up(taken_); }
  void stop(std::exception_ptr error = nullptr) {
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_) error_ = std::move(error);
      stopped_ = true;
    }
    changed_.notify_all();
  }
  /// Called after the other thread has ended.
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  void count_up(std::int64_t& counter) {
    {
      const std::lock_guard lock(mutex_);
      ++counter;
    }
    changed_.notify_all();
  }

  const std::int64_t slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t queued_ = 0;
  std::int64_t taken_ = 0;
  bool stopped_ = false;
  std::exception_ptr error_;  ///< The first that occurred.
};

/// Reads a chunk into its slot and queues all of its work on the GPU. `untried`: this is the first chunk with this
/// plan. Its kernel runs once more beforehand, since the first launch loads the kernel's code, which must not be timed.
void send_off(Slot& slot, const Plan& plan, bool untried, const Input& input, std::int64_t first) {
  const std::int64_t rows = plan.problem.rows;
  input.source.read(first, input.is_flat ? 1 : rows, slot.host_input.get());
  slot.stream.copy(slot.device_input.get(), slot.host_input.get(), input.bytes(rows));
  RowArrays arrays;
  for (std::size_t i = 0; i < input.arrays.size(); ++i) {
    const RowFiles::Array& array = input.arrays[i];
    slot.stream.copy(slot.arrays[i].get(), array.data + static_cast<std::size_t>(first) * array.row_bytes,
                     input.bytes(array, rows));
    arrays.*array.member = slot.arrays[i].get();
  }
  const auto select = [&] {
    require(run(plan, slot.device_input.get(), slot.device_results.output(),
                {slot.workspace.get(), plan.workspace_bytes}, {.stream = slot.stream.handle()}, arrays));
  };
  if (untried) select();
  slot.select_begin.record(slot.stream);
  select();
  slot.select_end.record(slot.stream);
  for (std::size_t i = 0; i < slot.host_results.arrays(); ++i) {
    const std::span<std::byte> to = slot.host_results.part(i, rows);
    slot.stream.copy(to.data(), slot.device_results.part(i, rows).data(), to.size());
  }
  slot.arrived.record(slot.stream);
}

}  // namespace

ChunkedRun select_on_gpu(MatrixSource& source, const Problem& problem, const Traits& traits, std::int64_t chunk_rows,
                         const TakeChunk& take, const RowFiles* files) {
  if (problem.rows == 0) return {.plan = plan_for_rows(problem, traits, 0)};
  const int ordinal = problem.device.ordinal;
  gpu::use(ordinal);
  const Input input(source, files);
  const Cut cut = choose_cut(chunk_rows, problem, traits, input);
  std::vector<std::unique_ptr<Slot>> slots;
  for (std::int64_t i = 0; i < cut.slots; ++i) {
    slots.push_back(std::make_unique<Slot>(problem, cut, input));
  }
  const auto slot_of = [&](std::int64_t chunk) -> Slot& { return *slots[static_cast<std::size_t>(chunk % cut.slots)]; };
  const auto plan_of = [&](std::int64_t chunk) -> const Plan& {
    return chunk + 1 == cut.chunks ? cut.last : cut.whole;
  };

  ChunkedRun result{.plan = cut.whole};
  Turns turns(cut.slots);
  const auto send = [&] {
    try {
      gpu::use(ordinal);
      for (std::int64_t chunk = 0; chunk < cut.chunks && turns.wait_until_free(chunk); ++chunk) {
        const bool untried = chunk == 0 || chunk + 1 == cut.chunks;
        send_off(slot_of(chunk), plan_of(chunk), untried, input, chunk * cut.chunk_rows());
        turns.one_was_queued();
      }
    } catch (...) {
      turns.stop(std::current_exception());
    }
  };
  std::thread sender;
  try {
    const BlockedSignals blocked;  // the new thread inherits the mask
    sender = std::thread(send);
  } catch (const std::system_error& error) {
    fail("cannot start a thread that reads the matrix: {}", error.code().message());
  }
  try {
    for (std::int64_t chunk = 0; chunk < cut.chunks && turns.wait_until_queued(chunk); ++chunk) {
      Slot& slot = slot_of(chunk);
      slot.arrived.wait();
      result.select_s += slot.select_end.seconds_since(slot.select_begin);
      const bool go_on = take({.first = chunk * cut.chunk_rows(),
                               .rows = plan_of(chunk).problem.rows,
                               .input = slot.host_input.get(),
                               .results = &slot.host_results});
      if (!go_on) turns.stop();
      turns.one_was_taken();
    }
  } catch (...) {
    turns.stop(std::current_exception());
  }
  sender.join();
  turns.rethrow();
  return result;
}

}  // namespace rtopk::tool
