// Rows that a study selects from, made batch by batch, on the CPU or on a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <rtopk/select.hpp>

#include "command_line/options.hpp"
#include "matrix/random.hpp"
#include "system/cuda_device.hpp"
#include "system/owned_bytes.hpp"
#include "system/thread_pool.hpp"

namespace rtopk::tool {

/// What all parts of a study share.
struct StudySetting {
  Machine machine;
  RandomSpec random;      ///< f32, as in the paper.
  std::int64_t rows = 0;  ///< 0: as many as the paper uses.
  ThreadPool* pool = nullptr;
  bool progress = false;

  [[nodiscard]] std::int64_t rows_or(std::int64_t published) const noexcept { return rows > 0 ? rows : published; }
  /// The published numbers are for normal elements.
  [[nodiscard]] bool as_published() const noexcept { return random.distribution == Distribution::normal; }
};

/// Memory for the results of up to `max_rows` rows and k up to `max_k`: on the host, and on the GPU if one is used.
class RowResults {
 public:
  RowResults(bool on_gpu, std::int64_t max_rows, std::int64_t max_k);

  [[nodiscard]] const float* values() const noexcept { return reinterpret_cast<const float*>(host_[0].get()); }
  [[nodiscard]] const std::int32_t* indices() const noexcept { return ints(1); }
  [[nodiscard]] const std::int32_t* passes() const noexcept { return ints(2); }

 private:
  friend class RowBatch;

  [[nodiscard]] const std::int32_t* ints(std::size_t array) const noexcept {
    return reinterpret_cast<const std::int32_t*>(host_[array].get());
  }

  std::vector<OwnedBytes> host_;
  std::vector<OwnedBytes> device_;  ///< Empty on the CPU.
};

/// Some rows of a random matrix, for several selections.
class RowBatch {
 public:
  RowBatch(const StudySetting& setting, std::int64_t cols, std::int64_t max_rows);

  void make(std::int64_t first, std::int64_t rows);

  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t cols() const noexcept { return cols_; }
  [[nodiscard]] std::int64_t max_rows() const noexcept { return max_rows_; }
  [[nodiscard]] const float* row(std::int64_t i) const noexcept {
    return reinterpret_cast<const float*>(host_.get()) + i * cols_;
  }
  /// Memory for the results of select().
  [[nodiscard]] RowResults results(std::int64_t max_k) const { return {on_gpu_, max_rows_, max_k}; }

  /// Values and indices (i32, ascending) and passes of every row. Shape, type and device of `problem` are set here.
  void select(Problem problem, RowResults& results);

 private:
  const StudySetting& setting_;
  bool on_gpu_ = false;
  std::int64_t cols_ = 0;
  std::int64_t max_rows_ = 0;
  std::int64_t rows_ = 0;
  OwnedBytes host_;
  OwnedBytes device_;
  OwnedBytes workspace_;
  std::size_t workspace_bytes_ = 0;
  std::unique_ptr<gpu::Stream> stream_;
};

/// Makes `rows` rows batch by batch, calls `use` for each batch, and shows progress. The size of a batch depends on
/// `cols` alone, so that results do not depend on the machine.
void for_each_batch(const StudySetting& setting, const std::string& label, std::int64_t cols, std::int64_t rows,
                    const std::function<void(RowBatch&)>& use);

}  // namespace rtopk::tool
