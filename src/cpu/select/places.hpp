// Selections of places alone: what needs more than a family writes writes it from these.
#pragma once

#include <cstdint>

#include <rtopk/select.hpp>

#include "core/placement.hpp"

namespace rtopk::cpu {

/// As `problem`, but from `rows` rows of `cols` elements that lie side by side, and with the places of the k results alone.
[[nodiscard]] constexpr Problem places_of(const Problem& problem, std::int64_t rows, std::int64_t cols,
                                          std::int64_t k) noexcept {
  Problem places = core::tight(problem, rows);
  places.cols = cols;
  places.k = k;
  places.form = Form::pairs;
  places.index_type = IndexType::i64;
  places.values = places.thresholds = false;
  places.indices = true;
  places.ragged = {};
  places.index_map = {};
  return places;
}

}  // namespace rtopk::cpu
