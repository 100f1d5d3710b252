// The floor of `rtopk bench` on a GPU: which 32-byte sectors rows touch, against a set of all of them.
#include "bench/sectors.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace rtopk_test {
namespace {

using rtopk::tool::RowPlaces;
using rtopk::tool::sector_bytes;
using rtopk::tool::touched_sectors;

std::int64_t by_hand(const RowPlaces& places) {
  std::set<std::int64_t> sectors;
  for (std::int64_t row = 0; row < places.rows; ++row) {
    const std::int64_t begin = places.offset + row * places.stride;
    for (std::int64_t at = begin; at < begin + places.row_bytes; ++at) sectors.insert(at / sector_bytes);
  }
  return static_cast<std::int64_t>(sectors.size());
}

TEST(Sectors, RowsWithoutGapsAreTheirBytesRoundedUp) {
  EXPECT_EQ(touched_sectors({.rows = 1000, .row_bytes = 32, .stride = 32}), 1000);
  EXPECT_EQ(touched_sectors({.rows = 1001, .row_bytes = 20, .stride = 20}), (1001 * 20 + 31) / 32);
  EXPECT_EQ(touched_sectors({.rows = 1 << 28, .row_bytes = 1 << 20, .stride = 1 << 20}), std::int64_t{1} << 43);
}

TEST(Sectors, OffAlignmentTheyTouchOneMore) {
  EXPECT_EQ(touched_sectors({.rows = 8, .row_bytes = 64, .stride = 64, .offset = 4}), 17);
}

TEST(Sectors, ShortRowsAtAStrideTouchWholeSectors) {
  EXPECT_EQ(touched_sectors({.rows = 100, .row_bytes = 16, .stride = 128}), 100);
  EXPECT_EQ(touched_sectors({.rows = 100, .row_bytes = 16, .stride = 128, .offset = 24}), 200);
}

TEST(Sectors, NoRowsTouchNone) { EXPECT_EQ(touched_sectors({.rows = 0, .row_bytes = 4, .stride = 4}), 0); }

TEST(Sectors, AgreesWithASetOfThem) {
  for (std::int64_t size : {2, 4, 8}) {
    for (std::int64_t cols : {1, 3, 8, 9, 17, 40}) {
      for (std::int64_t gap : {0, 1, 2, 7, 15, 16, 64}) {
        for (std::int64_t offset : {0, 1, 3, 7}) {
          for (std::int64_t rows : {1, 2, 15, 16, 17, 33, 70}) {
            const RowPlaces places{
                .rows = rows, .row_bytes = cols * size, .stride = (cols + gap) * size, .offset = offset * size};
            ASSERT_EQ(touched_sectors(places), by_hand(places))
                << size << " bytes, " << cols << " columns, gap " << gap << ", offset " << offset << ", rows " << rows;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace rtopk_test
