#include "study/rows.hpp"

#include <algorithm>
#include <optional>

#include <rtopk/rtopk.hpp>

#include "matrix/source.hpp"
#include "terminal/failure.hpp"
#include "terminal/line.hpp"

namespace rtopk::tool {
namespace {

// Bytes of rows in a batch: few enough that progress is visible, enough to keep every thread busy.
constexpr std::int64_t batch_bytes = std::int64_t{4} << 20;

std::size_t bytes_of(std::int64_t rows, std::int64_t items) { return static_cast<std::size_t>(rows * items) * 4; }

OwnedBytes no_bytes() {
  return {nullptr, [](std::byte*) noexcept {}};
}

}  // namespace

RowResults::RowResults(bool on_gpu, std::int64_t max_rows, std::int64_t max_k) {
  for (const std::int64_t items : {max_k, max_k, std::int64_t{1}}) {
    host_.push_back((on_gpu ? gpu::pinned_bytes : heap_bytes)(bytes_of(max_rows, items)));
    if (on_gpu) device_.push_back(gpu::device_bytes(bytes_of(max_rows, items)));
  }
}

RowBatch::RowBatch(const StudySetting& setting, std::int64_t cols, std::int64_t max_rows)
    : setting_(setting),
      on_gpu_(setting.machine.is_gpu()),
      cols_(cols),
      max_rows_(max_rows),
      host_(no_bytes()),
      device_(no_bytes()),
      workspace_(no_bytes()) {
  if (on_gpu_) {
    gpu::use(setting.machine.traits.device.ordinal);
    stream_ = std::make_unique<gpu::Stream>();
    device_ = gpu::device_bytes(bytes_of(max_rows, cols));
  }
  host_ = (on_gpu_ ? gpu::pinned_bytes : heap_bytes)(bytes_of(max_rows, cols));
}

void RowBatch::make(std::int64_t first, std::int64_t rows) {
  rows_ = rows;
  fill_random(setting_.random, first * cols_, rows * cols_, host_.get(), *setting_.pool);
  if (on_gpu_) stream_->copy(device_.get(), host_.get(), bytes_of(rows, cols_));
}

void RowBatch::select(Problem problem, RowResults& results) {
  problem.rows = rows_;
  problem.cols = cols_;
  problem.dtype = DType::f32;
  problem.order = Order::by_index;
  problem.index_type = IndexType::i32;
  problem.passes = true;
  problem.device = setting_.machine.traits.device;
  Plan plan;
  require(make_plan(problem, setting_.machine.traits, plan));
  if (plan.workspace_bytes > workspace_bytes_) {
    workspace_ = (on_gpu_ ? gpu::device_bytes : heap_bytes)(plan.workspace_bytes);
    workspace_bytes_ = plan.workspace_bytes;
  }
  const std::vector<OwnedBytes>& written = on_gpu_ ? results.device_ : results.host_;
  const Output output{.values = written[0].get(),
                      .indices = written[1].get(),
                      .passes = reinterpret_cast<std::int32_t*>(written[2].get())};
  require(run(plan, on_gpu_ ? device_.get() : host_.get(), output, {workspace_.get(), workspace_bytes_},
              {.stream = on_gpu_ ? stream_->handle() : nullptr}));
  if (!on_gpu_) return;
  stream_->copy(results.host_[0].get(), results.device_[0].get(), bytes_of(rows_, problem.k));
  stream_->copy(results.host_[1].get(), results.device_[1].get(), bytes_of(rows_, problem.k));
  stream_->copy(results.host_[2].get(), results.device_[2].get(), bytes_of(rows_, 1));
  stream_->wait();
}

void for_each_batch(const StudySetting& setting, const std::string& label, std::int64_t cols, std::int64_t rows,
                    const std::function<void(RowBatch&)>& use) {
  const std::int64_t row_bytes = cols * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t max_rows = std::min(rows, std::max<std::int64_t>(1, batch_bytes / row_bytes));
  RowProgress progress("study " + label, rows, static_cast<double>(row_bytes), setting.progress);
  RowBatch batch(setting, cols, max_rows);
  for (std::int64_t first = 0; first < rows; first += max_rows) {
    progress.update(first);
    batch.make(first, std::min(max_rows, rows - first));
    use(batch);
  }
}

}  // namespace rtopk::tool
