// Names of the enumerators of rtopk::moe.
#include <rtopk/moe/route.hpp>

namespace rtopk::moe {

const char* name(Score score) noexcept {
  switch (score) {
    case Score::softmax: return "softmax";
    case Score::sigmoid: return "sigmoid";
    case Score::sqrtsoftplus: return "sqrtsoftplus";
  }
  return "?";
}

}  // namespace rtopk::moe
