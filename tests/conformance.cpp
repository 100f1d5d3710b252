// Helpers of the conformance suite.
#include "conformance.hpp"

namespace rtopk_test {

using rtopk::Form;
using rtopk::IndexType;
using rtopk::Order;

std::vector<Shape> shapes_for(std::int64_t cols) {
  std::vector<Shape> shapes;
  for (const Order order : kOrders) {
    for (const IndexType type : {IndexType::i32, IndexType::i64}) {
      shapes.push_back({Form::pairs, type, true, true, order});
      shapes.push_back({Form::pairs, type, false, true, order});
    }
    shapes.push_back({Form::pairs, IndexType::i64, true, false, order});
    if (cols <= 256) shapes.push_back({Form::cbsr, IndexType::u8, true, true, order});
    if (cols <= 65536) shapes.push_back({Form::cbsr, IndexType::u16, true, true, order});
    if (order == Order::by_value) continue;  // a dense row has only one order
    shapes.push_back({Form::dense, IndexType::i64, true, true, order});
    shapes.push_back({Form::mask, IndexType::i64, true, true, order});
  }
  return shapes;
}

Layout random_layout(Random& random) {
  constexpr std::int64_t kPaddings[] = {0, 0, 0, 1, 3, 13, 64};
  Layout layout;
  layout.padding = random.pick(kPaddings);
  switch (random.between(0, 7)) {
    case 0: layout.element_gap = random.between(1, 20); break;
    case 1:
    case 2: layout.columns = true; break;
    default: break;
  }
  if (random.between(0, 3) == 0) layout.group_rows = random.between(1, 9);
  layout.input_misalignment = static_cast<std::size_t>(random.between(0, 15));
  layout.output_misalignment = static_cast<std::size_t>(random.between(0, 15));
  layout.workspace_misalignment = static_cast<std::size_t>(random.between(0, 63));
  constexpr std::byte kFills[] = {std::byte{0x5a}, std::byte{0x00}, std::byte{0xff}};
  layout.workspace_fill = random.pick(kFills);
  layout.threads = static_cast<std::int32_t>(random.between(1, 4));
  return layout;
}

std::int64_t random_k(std::int64_t cols, Random& random) {
  switch (random.between(0, 5)) {
    case 0: return 1;
    case 1: return cols;
    case 2: return std::max<std::int64_t>(1, cols - 1);
    case 3: return random.between(1, cols);
    default: return random.between(1, std::min<std::int64_t>(cols, 64));
  }
}

}  // namespace rtopk_test
