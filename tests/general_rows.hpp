// Arrays of general rows, with every kind of content: what users have, and what must not do any harm.
#pragma once

#include <cstdint>

#include <rtopk/select.hpp>

#include "encoding.hpp"
#include "matrix.hpp"
#include "oracle.hpp"
#include "random.hpp"

namespace rtopk_test {

/// The arrays that a problem names, as bytes of their types.
struct ArrayBytes {
  Bytes lengths, starts, offsets, k, map, table_of;

  ArrayBytes(const rtopk::Problem& problem, const RowNumbers& numbers);
  [[nodiscard]] rtopk::RowArrays view() const {
    return {lengths.data(), starts.data(), offsets.data(), k.data(), map.data(), table_of.data()};
  }
};

/// A number for an array whose sensible numbers are 0 to `most`: usually one of those, with the ends and their
/// neighbours more often; sometimes one out of range, up to the limits of the type.
std::int64_t any_number(std::int64_t most, rtopk::ArrayType type, Random& random);

rtopk::ArrayType any_type(Random& random);

/// Numbers that fit the problem's arrays of rows: lengths, starts, offsets and k.
void fill_rows(const rtopk::Problem& problem, RowNumbers& numbers, Random& random);

/// Gives a problem random arrays of rows: lengths, starts, k; or offsets, if `flat`.
void make_ragged(rtopk::Problem& problem, RowNumbers& numbers, bool flat, Random& random);

/// How many numbers the map of a problem has.
std::int64_t map_numbers(const rtopk::Problem& problem);

/// Numbers that fit the problem's index map.
void fill_map(const rtopk::Problem& problem, RowNumbers& numbers, Random& random);

/// Gives a problem an index map of this kind, with its content.
void map_indices(rtopk::Problem& problem, rtopk::IndexKind kind, RowNumbers& numbers, Random& random);

/// Turns a problem with any form and order into one with a random choice of the options of general rows that are
/// allowed for it.
void generalise(rtopk::Problem& problem, RowNumbers& numbers, Random& random);

/// The input of a problem: its matrix, or the flat input, with every pattern.
Matrix input_for(const rtopk::Problem& problem, Random& random);

}  // namespace rtopk_test
