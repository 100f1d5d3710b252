// What `rtopk bench` prints for people.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/case.hpp"

namespace rtopk::tool {

class BenchTable {
 public:
  explicit BenchTable(const BenchSetting& setting) : setting_(setting) {}
  virtual ~BenchTable() = default;
  BenchTable(const BenchTable&) = delete;
  BenchTable& operator=(const BenchTable&) = delete;

  virtual void print_header(const std::vector<BenchCase>& cases) const = 0;
  virtual void print(const BenchResult& result) const = 0;
  virtual void print_footer(const std::vector<BenchResult>& results) const = 0;

 protected:
  /// The machine, in one line.
  void print_machine() const;
  /// Under the line of a result.
  static void print_violation(const BenchResult& result);
  [[nodiscard]] std::string device_and_repeats() const;

  BenchSetting setting_;
};

/// For shapes that share all but rows, columns and k.
[[nodiscard]] std::unique_ptr<BenchTable> shape_table(const BenchSetting& setting);

/// For random problems: a line for each with what was drawn, then groups of them, then the worst.
[[nodiscard]] std::unique_ptr<BenchTable> problem_table(const BenchSetting& setting);

/// The cases alone, for a run that times nothing.
void print_cases(const std::vector<BenchCase>& cases);

}  // namespace rtopk::tool
