// Checks many rows against the contract with several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "selection/contract.hpp"
#include "system/thread_pool.hpp"

namespace rtopk::tool {

/// The first violation in rows that several threads check. They start blocks of rows in ascending order.
class FirstViolation {
 public:
  void report(Violation violation);
  [[nodiscard]] bool is_before(std::int64_t row) const noexcept { return row_.load() < row; }
  [[nodiscard]] const std::optional<Violation>& get() const noexcept { return first_; }

 private:
  std::mutex mutex_;
  std::optional<Violation> first_;
  std::atomic<std::int64_t> row_{INT64_MAX};
};

/// Checks rows without gaps with every thread of the pool. `first` is the number of their first row.
void check_rows(const void* input, std::int64_t first, std::int64_t rows, const Results& results,
                const Problem& problem, ThreadPool& pool, FirstViolation& first_broken);

}  // namespace rtopk::tool
