// Checks a selection against the contract, row by row, by the library's scalar reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rtopk/rtopk.hpp>

namespace rtopk::tool {

/// The results of some rows, laid out as run() writes them. Null for what the problem does not ask for.
struct Results {
  const void* values = nullptr;
  const void* indices = nullptr;
  const void* dense = nullptr;
  const void* mask = nullptr;
  const void* passes = nullptr;

  /// The results that begin `rows` rows later.
  [[nodiscard]] Results after(const Problem& problem, std::int64_t rows) const noexcept;
};

struct Violation {
  std::int64_t row = 0;  ///< Counted from the first row that was given.
  std::string reason;    ///< What is wrong, in one line.
};

/// One per thread: it owns its scratch memory.
class ContractChecker {
 public:
  /// `problem` says what was selected; its number of rows is not used.
  explicit ContractChecker(const Problem& problem);

  /// Checks `rows` rows without gaps. Returns the first violation.
  std::optional<Violation> check(const void* input, std::int64_t rows, const Results& results);

 private:
  void choose(const void* row);
  std::string reason(const void* row, const Results& results, std::int64_t passes);
  std::string reason_for_indices(const void* row, const Results& results);
  std::string reason_for_set(const void* row);
  std::string reason_for_order(const void* row, const Results& results) const;
  std::string reason_for_values(const void* row, const Results& results);
  std::string reason_for_columns(const void* row, const Results& results) const;
  [[nodiscard]] bool in_order(const void* row, std::int64_t a, std::int64_t b) const;
  [[nodiscard]] std::string at(const void* row, std::int64_t column) const;
  [[nodiscard]] std::string mode() const;

  Problem problem_;
  bool exact_ = true;
  bool passes_are_fixed_ = false;
  std::vector<std::int64_t> expected_;  // the columns that the reference selects, ascending
  std::int32_t expected_passes_ = 0;
  std::vector<std::int64_t> found_;  // the columns that were selected, ascending
  std::vector<std::byte> workspace_;
  Plan plan_{};
};

}  // namespace rtopk::tool
