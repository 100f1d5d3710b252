// For every byte, the positions of its set bits: turns a bit mask into a list of positions without branches.
#pragma once

#include <array>
#include <cstdint>

namespace rtopk::cpu {

struct PositionTable {
  alignas(64) std::array<std::array<std::uint8_t, 8>, 256> places{};
  std::array<std::uint8_t, 256> counts{};

  constexpr PositionTable() {
    for (unsigned bits = 0; bits < 256; ++bits) {
      for (std::uint8_t place = 0; place < 8; ++place) {
        if ((bits >> place & 1u) != 0) places[bits][counts[bits]++] = place;
      }
    }
  }
};

inline constexpr PositionTable kPositionTable;

}  // namespace rtopk::cpu
