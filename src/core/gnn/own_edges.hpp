// The rows of gnn::OwnEdges, one at a time, for every backend.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/attributes.hpp"
#include "internal/own_edges.hpp"

namespace rtopk::core {

template <class Index>
class RowsWithOwnEdges {
 public:
  RowsWithOwnEdges(const gnn::OwnEdges& problem, const gnn::Graph& graph, const gnn::OwnEdgesResult& result)
      : problem_(problem),
        starts_(static_cast<const Index*>(graph.row_starts)),
        columns_(static_cast<const Index*>(graph.columns)),
        weights_(problem.weighted ? graph.weights : nullptr),
        new_starts_(static_cast<Index*>(result.row_starts)),
        new_columns_(static_cast<Index*>(result.columns)),
        new_weights_(problem.weighted || problem.normalized ? result.weights : nullptr),
        scales_(result.scales) {}

  /// The first step, for every row, if normalized: the factor of the row.
  RTOPK_HD void write_scale(std::int64_t row) const {
    const double total = total_of(row);
    scales_[row] = total == 0.0 ? 0.0 : 1.0 / sqrt(total);
  }

  /// The second step, for every row: its edges. `row` may be the number of rows, for the end of the starts.
  RTOPK_HD void write_row(std::int64_t row) const {
    if (problem_.edge == gnn::OwnEdge::none) {
      if (row == problem_.rows) return;
      const Range range = range_of(row);
      for (std::int64_t edge = range.begin; edge < range.end; ++edge) {
        new_weights_[edge] = scaled(weight_of(edge), row, columns_[edge]);
      }
      return;
    }
    if (row == problem_.rows) {
      new_starts_[row] = static_cast<Index>(clamped(starts_[row]) + row);
      return;
    }
    const Range range = range_of(row);
    const Own own = own_of(row, range);
    const std::int64_t first = range.begin + row;
    new_starts_[row] = static_cast<Index>(first);
    std::int64_t kept = 0;
    for (std::int64_t edge = range.begin; edge < range.end; ++edge) {
      if (goes_away(row, edge)) continue;
      write(first + kept + (kept >= own.before ? 1 : 0), row, columns_[edge], weight_of(edge));
      ++kept;
    }
    const bool loops = problem_.edge == gnn::OwnEdge::self_loop;
    write(first + own.before, row, loops ? row : problem_.nodes + row, own.weight);
    for (std::int64_t place = first + kept + 1; place <= range.end + row; ++place) {
      new_columns_[place] = Index{-1};
      if (new_weights_ != nullptr) new_weights_[place] = 0.0f;
    }
  }

 private:
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  struct Own {
    std::int64_t before;  ///< The edges in front of it.
    float weight;
  };

  /// Clamped to the edges, even if the row starts are invalid.
  [[nodiscard]] RTOPK_HD Range range_of(std::int64_t row) const {
    const std::int64_t begin = clamped(starts_[row]);
    const std::int64_t end = clamped(starts_[row + 1]);
    return {begin, end < begin ? begin : end};
  }

  [[nodiscard]] RTOPK_HD std::int64_t clamped(std::int64_t start) const {
    return start < 0 ? 0 : start > problem_.edges ? problem_.edges : start;
  }

  [[nodiscard]] RTOPK_HD float weight_of(std::int64_t edge) const {
    return weights_ == nullptr ? 1.0f : weights_[edge];
  }

  [[nodiscard]] RTOPK_HD bool goes_away(std::int64_t row, std::int64_t edge) const {
    return problem_.edge == gnn::OwnEdge::self_loop && columns_[edge] == row;
  }

  [[nodiscard]] RTOPK_HD Own own_of(std::int64_t row, const Range& range) const {
    if (problem_.edge != gnn::OwnEdge::self_loop) return {range.end - range.begin, 1.0f};
    Own own{0, 1.0f};
    for (std::int64_t edge = range.begin; edge < range.end; ++edge) {
      const std::int64_t column = columns_[edge];
      if (column < row) ++own.before;
      if (column == row) own.weight = weight_of(edge);
    }
    return own;
  }

  [[nodiscard]] RTOPK_HD double total_of(std::int64_t row) const {
    const Range range = range_of(row);
    const bool adds = problem_.edge != gnn::OwnEdge::none;
    if (weights_ == nullptr && !adds) return static_cast<double>(range.end - range.begin);
    double total = adds ? static_cast<double>(own_of(row, range).weight) : 0.0;
    for (std::int64_t edge = range.begin; edge < range.end; ++edge) {
      if (!goes_away(row, edge)) total += static_cast<double>(weight_of(edge));
    }
    return total;
  }

  RTOPK_HD void write(std::int64_t place, std::int64_t row, std::int64_t column, float weight) const {
    new_columns_[place] = static_cast<Index>(column);
    if (new_weights_ != nullptr) new_weights_[place] = problem_.normalized ? scaled(weight, row, column) : weight;
  }

  [[nodiscard]] RTOPK_HD float scaled(float weight, std::int64_t row, std::int64_t column) const {
    return static_cast<float>(static_cast<double>(weight) * (scale_of(row) * scale_of(column)));
  }

  [[nodiscard]] RTOPK_HD double scale_of(std::int64_t node) const {
    if (node < 0 || node >= problem_.nodes) return 0.0;
    if (node >= problem_.rows) {
      return problem_.edge == gnn::OwnEdge::self_loop || problem_.others_total ? 1.0 : 0.0;
    }
    return scales_[node];
  }

  gnn::OwnEdges problem_;
  const Index* starts_;
  const Index* columns_;
  const float* weights_;  ///< Null: all are 1.
  Index* new_starts_;
  Index* new_columns_;
  float* new_weights_;
  double* scales_;
};

}  // namespace rtopk::core
