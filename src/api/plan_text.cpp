#include <sstream>
#include <string>

#include <rtopk/plan.hpp>

namespace rtopk {

std::string to_string(const Plan& plan) {
  const Problem& p = plan.problem;
  std::ostringstream text;
  text << "family=" << name(plan.family) << '\n'
       << "device=" << name(p.device.kind) << ':' << p.device.ordinal << '\n'
       << "rows=" << p.rows << '\n'
       << "cols=" << p.cols << '\n'
       << "k=" << p.k << '\n'
       << "row_stride=" << (p.row_stride == 0 ? p.cols : p.row_stride) << '\n'
       << "dtype=" << name(p.dtype) << '\n'
       << "direction=" << name(p.direction) << '\n'
       << "order=" << name(p.order) << '\n'
       << "form=" << name(p.form) << '\n';
  if (p.form == Form::pairs || p.form == Form::cbsr) text << "index_type=" << name(p.index_type) << '\n';
  if (p.max_iter != 0) text << "max_iter=" << p.max_iter << '\n';
  if (p.epsilon != 0.0) text << "epsilon=" << p.epsilon << '\n';
  text << "search=" << name(p.max_iter != 0 || p.epsilon != 0.0 ? Search::bisection : p.search) << '\n'
       << "threads=" << plan.threads << '\n'
       << "rows_per_block=" << plan.rows_per_block << '\n';
  if (plan.candidate_capacity != 0) text << "candidate_capacity=" << plan.candidate_capacity << '\n';
  if (p.device.kind == DeviceKind::cuda) {
    text << "lanes_per_row=" << plan.lanes_per_row << '\n';
    if (plan.elements_per_lane != 0) text << "elements_per_lane=" << plan.elements_per_lane << '\n';
    text << "blocks=" << plan.blocks << '\n';
    if (plan.parts != 0) text << "parts=" << plan.parts << '\n';
    text << "shared_bytes=" << plan.shared_bytes << '\n';
  } else {
    text << "scratch_bytes=" << plan.scratch_bytes << '\n';
  }
  text << "workspace_bytes=" << plan.workspace_bytes << '\n';
  return std::move(text).str();
}

}  // namespace rtopk
