// The MaxK activation of a neural network: keep the k largest features of every node. Once as a dense matrix with
// everything else zero, once in the compact format CBSR, which is what sparse kernels want to read.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <rtopk/rtopk.hpp>

namespace {

bool select(const rtopk::Problem& problem, const std::vector<float>& features, const rtopk::Output& output) {
  rtopk::Plan plan;
  rtopk::Status status = rtopk::make_plan(problem, plan);
  if (status.ok()) {
    std::vector<std::byte> workspace(plan.workspace_bytes);
    status = rtopk::run(plan, features.data(), output, {workspace.data(), workspace.size()});
  }
  if (!status.ok()) std::fprintf(stderr, "rtopk: %s\n", status.text());
  return status.ok();
}

}  // namespace

int main() {
  constexpr std::int64_t nodes = 2;
  constexpr std::int64_t channels = 8;
  constexpr std::int64_t k = 3;
  const std::vector<float> features = {
      0.5f,  -1.0f, 2.0f,  0.0f,  3.0f,  1.0f,  -2.0f, 0.25f,  //
      -3.0f, -1.0f, -2.0f, -5.0f, -4.0f, -1.0f, -6.0f, -7.0f,
  };

  rtopk::Problem problem;
  problem.rows = nodes;
  problem.cols = channels;
  problem.k = k;

  problem.form = rtopk::Form::dense;
  std::vector<float> activated(nodes * channels);
  if (!select(problem, features, {.dense = activated.data()})) return 1;

  problem.form = rtopk::Form::cbsr;
  problem.index_type = rtopk::selector_type(channels);  // one byte is enough for 8 channels
  std::vector<float> values(nodes * k);
  std::vector<std::uint8_t> selectors(nodes * k);
  if (!select(problem, features, {.values = values.data(), .indices = selectors.data()})) return 1;

  // The two forms hold the same: spread out, CBSR is the dense activation.
  std::vector<float> spread(nodes * channels, 0.0f);
  for (std::int64_t node = 0; node < nodes; ++node) {
    std::printf("node %d keeps", static_cast<int>(node));
    for (std::int64_t i = 0; i < k; ++i) {
      const auto at = static_cast<std::size_t>(node * k + i);
      std::printf("  %g in channel %d", static_cast<double>(values[at]), selectors[at]);
      spread[static_cast<std::size_t>(node * channels) + selectors[at]] = values[at];
    }
    std::printf("\n");
  }
  return spread == activated ? 0 : 1;
}
