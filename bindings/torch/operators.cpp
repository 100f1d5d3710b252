// Registers the operators of torch.ops.rtopk through PyTorch's stable ABI. Gradients, fake kernels and vmap are
// registered in Python, beside the functions that call the operators.
#include "operators.hpp"

#include <stdexcept>
#include <string>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "aggregation.hpp"
#include "common/build_text.hpp"
#include "execution.hpp"
#include "expert_routes.hpp"
#include "general_rows.hpp"
#include "linear.hpp"
#include "norm.hpp"
#include "problems.hpp"
#include "product.hpp"
#include "routing.hpp"
#include "rows.hpp"
#include "selection.hpp"
#include "tensor_checks.hpp"
#include "usual_topk.hpp"

namespace rtopk::torch_binding {
namespace {

using torch::headeronly::ScalarType;

void select_pairs(const Rows& rows, const Problem& problem, const Tensor& values, const Tensor& indices) {
  if (nothing_to_do(rows, problem)) return;
  select(rows, problem, {.values = &values, .indices = &indices});
}

struct Pairs {
  Rows rows;
  Problem problem;
  std::int64_t dim;
};

Pairs pairs_of(const Tensor& self, std::int64_t k, std::int64_t dim, bool largest, bool sorted, std::int64_t max_iter,
               double epsilon, ScalarType index_dtype, bool printed, bool bisection) {
  check_input(self);
  dim = wrapped_dim(self, dim);
  check_k(self, k, dim);
  Problem problem = problem_of(results_per_row(self, k), largest, max_iter, epsilon, printed, bisection);
  problem.order = sorted ? Order::by_value : Order::unsorted;
  problem.index_type = index_type_of(index_dtype);
  return {rows_along(self, dim), problem, dim};
}

}  // namespace

std::tuple<Tensor, Tensor> topk(const Tensor& self, std::int64_t k, std::int64_t dim, bool largest, bool sorted,
                                std::int64_t max_iter, double epsilon, ScalarType index_dtype, bool printed,
                                bool bisection) {
  if (TopkHandles usual{}; max_iter == 0 && epsilon == 0.0 && !bisection && index_dtype == ScalarType::Long &&
                           self.defined() && usual_topk({self.get(), k, dim, largest, sorted}, usual)) {
    return {Tensor(usual.values), Tensor(usual.indices)};
  }
  const Pairs pairs = pairs_of(self, k, dim, largest, sorted, max_iter, epsilon, index_dtype, printed, bisection);
  const Tensor values = empty_results(pairs.rows, pairs.problem.k, dtype_of(self));
  const Tensor indices = empty_results(pairs.rows, pairs.problem.k, index_dtype_of(pairs.problem.index_type));
  select_pairs(pairs.rows, pairs.problem, values, indices);
  return {results_along(values, pairs.dim), results_along(indices, pairs.dim)};
}

namespace {

void check_output(const char* name, const Tensor& output, const Tensor& self, const Pairs& pairs) {
  check_dims(name, output, self.dim());
  for (std::int64_t i = 0; i < self.dim(); ++i) {
    if (i == pairs.dim) {
      check_size(name, output, i, pairs.problem.k, "k");
    } else {
      check_size(name, output, i, self.size(i), "as the input has");
    }
  }
  check_device(name, output, self, "input");
  check_no_internal_overlap(name, output);
}

/// Writes straight to `values` and `indices` if they are contiguous and `dim` is the last dimension.
void topk_out(const Tensor& self, std::int64_t k, std::int64_t dim, bool largest, bool sorted, std::int64_t max_iter,
              double epsilon, Tensor values, Tensor indices, bool printed, bool bisection) {
  check_memory("indices", indices);
  const ScalarType index_dtype = indices.scalar_type();
  const Pairs pairs = pairs_of(self, k, dim, largest, sorted, max_iter, epsilon, index_dtype, printed, bisection);
  check_output("values", values, self, pairs);
  check_output("indices", indices, self, pairs);
  if (dtype_of(values) != dtype_of(self)) refuse("values has another dtype than input; accepted: the same");
  check_apart("values", values, "indices", indices);
  if (pairs.dim >= self.dim() - 1 && values.is_contiguous() && indices.is_contiguous()) {
    select_pairs(pairs.rows, pairs.problem, values, indices);
    return;
  }
  const auto [made_values, made_indices] =
      topk(self, k, dim, largest, sorted, max_iter, epsilon, index_dtype, printed, bisection);
  torch::stable::copy_(values, made_values);
  torch::stable::copy_(indices, made_indices);
}

/// Results of the input's shape: the dense form or the mask.
Tensor whole_rows(const Tensor& self, std::int64_t k, std::int64_t dim, bool largest, std::int64_t max_iter,
                  double epsilon, bool printed, bool bisection, Form form) {
  check_input(self);
  dim = wrapped_dim(self, dim);
  check_k(self, k, dim);
  Problem problem = problem_of(k, largest, max_iter, epsilon, printed, bisection);
  problem.form = form;
  const Rows rows = rows_along(self, dim);
  Tensor result = empty_results(rows, rows.cols, form == Form::mask ? aoti_torch_dtype_bool() : dtype_of(self));
  if (nothing_to_do(rows, problem)) {
    torch::stable::zero_(result);
  } else if (form == Form::mask) {
    select(rows, problem, {.mask = &result});
  } else {
    select(rows, problem, {.dense = &result});
  }
  return results_along(result, dim);
}

Tensor maxk(const Tensor& self, std::int64_t k, std::int64_t dim, bool largest, std::int64_t max_iter, double epsilon,
            bool printed, bool bisection) {
  return whole_rows(self, k, dim, largest, max_iter, epsilon, printed, bisection, Form::dense);
}

Tensor topk_mask(const Tensor& self, std::int64_t k, std::int64_t dim, bool largest, std::int64_t max_iter,
                 double epsilon, bool printed, bool bisection) {
  return whole_rows(self, k, dim, largest, max_iter, epsilon, printed, bisection, Form::mask);
}

std::tuple<Tensor, Tensor> compact(const Tensor& self, std::int64_t k, bool largest, std::int64_t max_iter,
                                   double epsilon, bool printed, bool bisection) {
  check_input(self);
  const std::int64_t dim = wrapped_dim(self, -1);
  check_k(self, k, dim);
  const Rows rows = rows_along(self, dim);
  if (rows.cols > 65536) {
    throw std::runtime_error("rtopk: the last dimension has " + std::to_string(rows.cols) +
                             " elements; accepted for compact: at most 65536, the limit of 16-bit selectors");
  }
  Problem problem = problem_of(results_per_row(self, k), largest, max_iter, epsilon, printed, bisection);
  problem.form = Form::cbsr;
  problem.index_type = selector_type(rows.cols);
  const Tensor values = empty_results(rows, problem.k, dtype_of(self));
  const Tensor selectors = empty_results(rows, problem.k, index_dtype_of(problem.index_type));
  select_pairs(rows, problem, values, selectors);
  return {values, selectors};
}

std::string build_text() { return bindings::build_text(); }

}  // namespace
}  // namespace rtopk::torch_binding

// `printed` is the rule of max_iter (Rule), `bisection` the search (Search). What is newer comes last and has a default,
// so that saved graphs and calls from before it stay valid.
#define RTOPK_TOPK_SIGNATURE                                                                                     \
  "(Tensor input, SymInt k, int dim=-1, bool largest=True, bool sorted=True, int max_iter=0, float epsilon=0.0," \
  " ScalarType index_dtype=long, bool printed=False, bool bisection=False) -> (Tensor values, Tensor indices)"
#define RTOPK_COMPACT_SIGNATURE                                                                        \
  "(Tensor input, SymInt k, bool largest=True, int max_iter=0, float epsilon=0.0, bool printed=False," \
  " bool bisection=False) -> (Tensor values, Tensor selectors)"
#define RTOPK_WHOLE_ROWS_SIGNATURE                                                             \
  "(Tensor input, SymInt k, int dim=-1, bool largest=True, int max_iter=0, float epsilon=0.0," \
  " bool printed=False, bool bisection=False) -> Tensor"
#define RTOPK_WHOLE_GENERAL_ROWS_SIGNATURE                                                              \
  "(Tensor input, SymInt k, int dim=-1, Tensor? lengths=None, Tensor? starts=None, Tensor? row_k=None," \
  " bool largest=True, bool magnitude=False, int max_iter=0, float epsilon=0.0, bool printed=False,"    \
  " bool bisection=False) -> Tensor"
#define RTOPK_NORM_GRADIENTS " -> (Tensor grad_x, Tensor grad_gamma, Tensor grad_beta, Tensor? grad_bias)"

// Every operator that can appear in a saved graph has a gradient (_registrations.py).
STABLE_TORCH_LIBRARY(rtopk, library) {
  library.def("topk" RTOPK_TOPK_SIGNATURE);
  library.def(
      "topk_out(Tensor input, SymInt k, int dim, bool largest, bool sorted, int max_iter, float epsilon,"
      " Tensor(a!) values, Tensor(b!) indices, bool printed=False, bool bisection=False) -> ()");
  library.def("maxk" RTOPK_WHOLE_ROWS_SIGNATURE);
  library.def("topk_mask" RTOPK_WHOLE_ROWS_SIGNATURE);
  library.def("compact" RTOPK_COMPACT_SIGNATURE);
  // Rows that are more than those of a matrix.
  library.def(
      "topk_rows(Tensor input, SymInt k, int dim=-1, Tensor? lengths=None, Tensor? starts=None, Tensor? row_k=None,"
      " Tensor? ids=None, bool largest=True, bool sorted=True, bool magnitude=False, bool threshold=False,"
      " int max_iter=0, float epsilon=0.0, ScalarType index_dtype=long, bool printed=False, bool bisection=False)"
      " -> (Tensor values, Tensor indices, Tensor thresholds)");
  library.def(
      "topk_segments(Tensor values, Tensor offsets, SymInt k, Tensor? row_k=None, Tensor? ids=None,"
      " SymInt max_length=0, bool largest=True, bool sorted=True, bool magnitude=False, bool threshold=False,"
      " ScalarType index_dtype=long) -> (Tensor values, Tensor indices, Tensor thresholds)");
  library.def("maxk_rows" RTOPK_WHOLE_GENERAL_ROWS_SIGNATURE);
  library.def("topk_mask_rows" RTOPK_WHOLE_GENERAL_ROWS_SIGNATURE);
  library.def(
      "topk_places_out(Tensor input, Tensor? lengths, Tensor? starts, Tensor? row_k, Tensor map, SymInt page_size,"
      " Tensor? table_of, bool largest, bool sorted, bool magnitude, Tensor(a!) places) -> ()");
  // Only the gradient reads the transposed graph. Without one, every backward call computes it.
  library.def(
      "aggregate(Tensor row_starts, Tensor columns, Tensor? weights, Tensor values, Tensor selectors, SymInt cols,"
      " bool mean, bool deterministic, Tensor? t_row_starts=None, Tensor? t_columns=None, Tensor? t_weights=None)"
      " -> Tensor");
  library.def(
      "aggregate_backward(Tensor row_starts, Tensor columns, Tensor? weights, Tensor t_row_starts, Tensor t_columns,"
      " Tensor? t_weights, Tensor grad, Tensor selectors, bool mean, bool deterministic) -> Tensor");
  library.def(
      "transpose_graph(Tensor row_starts, Tensor columns, Tensor? weights, SymInt n) -> (Tensor t_row_starts,"
      " Tensor t_columns, Tensor? t_weights)");
  // One more edge in every row, weights of a graph convolution, or both. `edge` is a gnn::OwnEdge. Without an edge the
  // starts and columns are those given, and None comes back; so it does for what is not asked for.
  library.def(
      "_own_edges(Tensor row_starts, Tensor columns, Tensor? weights, int n, int edge, bool normalized,"
      " bool others_total) -> (Tensor? row_starts, Tensor? columns, Tensor? weights, Tensor? scales)");
  // Experts of tokens. `score` is a moe::Score.
  library.def(
      "route(Tensor logits, Tensor? bias, SymInt k, int score=0, int groups=1, int group_k=1, bool renormalize=True,"
      " float scale=1.0) -> (Tensor weights, Tensor ids)");
  // Products with CBSR rows.
  library.def("_add_product(Tensor(a!) onto, Tensor values, Tensor selectors, Tensor matrix) -> ()");
  library.def("_product_values_gradient(Tensor grad, Tensor selectors, Tensor matrix) -> Tensor");
  library.def("_product_matrix_gradient(Tensor grad, Tensor values, Tensor selectors, SymInt cols) -> Tensor");
  // Dense linear layers; only on some GPUs.
  library.def("_linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor");
  library.def("_linear_input_gradient(Tensor grad, Tensor weight) -> Tensor");
  library.def("_linear_weight_gradient(Tensor grad, Tensor x) -> Tensor");
  // LayerNorm; only on GPUs.
  library.def("_norm(Tensor x, Tensor? bias, Tensor gamma, Tensor beta, float epsilon) -> Tensor");
  library.def("_norm_backward(Tensor x, Tensor? bias, Tensor gamma, float epsilon, Tensor grad)" RTOPK_NORM_GRADIENTS);
  library.def(
      "_norm_compact_backward(Tensor x, Tensor? bias, Tensor gamma, float epsilon, Tensor values,"
      " Tensor selectors)" RTOPK_NORM_GRADIENTS);
  // Fast path of rtopk.topk, for calls that nothing records, transforms or differentiates. Other calls return None,
  // None.
  library.def("_plain_topk(Tensor input, int k) -> (Tensor values, Tensor indices)");
  library.def(
      "_plain_topk_along(Tensor input, int k, int dim, bool largest, bool sorted) -> (Tensor values, Tensor indices)");
  // Replaces torch.topk by rtopk (routing.hpp).
  library.def("_route_topk(bool cpu, bool cuda, bool on) -> ()");
  library.def("_routed_calls() -> int");
  library.def("build_text() -> str");
}

#define RTOPK_IMPLEMENTATIONS(library)                                                                 \
  library.impl("_add_product", TORCH_BOX(&rtopk::torch_binding::add_product));                         \
  library.impl("_product_values_gradient", TORCH_BOX(&rtopk::torch_binding::product_values_gradient)); \
  library.impl("_product_matrix_gradient", TORCH_BOX(&rtopk::torch_binding::product_matrix_gradient)); \
  library.impl("aggregate", TORCH_BOX(&rtopk::torch_binding::aggregate));                              \
  library.impl("aggregate_backward", TORCH_BOX(&rtopk::torch_binding::aggregate_backward));            \
  library.impl("transpose_graph", TORCH_BOX(&rtopk::torch_binding::transpose_graph));                  \
  library.impl("_own_edges", TORCH_BOX(&rtopk::torch_binding::own_edges));                             \
  library.impl("route", TORCH_BOX(&rtopk::torch_binding::expert_routes));                              \
  library.impl("topk", TORCH_BOX(&rtopk::torch_binding::topk));                                        \
  library.impl("topk_out", TORCH_BOX(&rtopk::torch_binding::topk_out));                                \
  library.impl("maxk", TORCH_BOX(&rtopk::torch_binding::maxk));                                        \
  library.impl("topk_mask", TORCH_BOX(&rtopk::torch_binding::topk_mask));                              \
  library.impl("compact", TORCH_BOX(&rtopk::torch_binding::compact));                                  \
  library.impl("topk_rows", TORCH_BOX(&rtopk::torch_binding::topk_rows));                              \
  library.impl("topk_segments", TORCH_BOX(&rtopk::torch_binding::topk_segments));                      \
  library.impl("maxk_rows", TORCH_BOX(&rtopk::torch_binding::maxk_rows));                              \
  library.impl("topk_mask_rows", TORCH_BOX(&rtopk::torch_binding::topk_mask_rows));                    \
  library.impl("topk_places_out", TORCH_BOX(&rtopk::torch_binding::topk_places_out))

#define RTOPK_PLAIN_TOPK(library, last, along) \
  library.impl("_plain_topk", last);           \
  library.impl("_plain_topk_along", along)

// A build without the CUDA backend accepts CUDA tensors too, to report what is missing.
STABLE_TORCH_LIBRARY_IMPL(rtopk, CPU, library) {
  RTOPK_IMPLEMENTATIONS(library);
  RTOPK_PLAIN_TOPK(library, rtopk::torch_binding::boxed_topk_of_last, rtopk::torch_binding::boxed_topk);
}
STABLE_TORCH_LIBRARY_IMPL(rtopk, CUDA, library) {
  RTOPK_IMPLEMENTATIONS(library);
  RTOPK_PLAIN_TOPK(library, rtopk::torch_binding::boxed_topk_of_last, rtopk::torch_binding::boxed_topk);
  library.impl("_linear", TORCH_BOX(&rtopk::torch_binding::linear));
  library.impl("_linear_input_gradient", TORCH_BOX(&rtopk::torch_binding::linear_input_gradient));
  library.impl("_linear_weight_gradient", TORCH_BOX(&rtopk::torch_binding::linear_weight_gradient));
  library.impl("_norm", TORCH_BOX(&rtopk::torch_binding::norm));
  library.impl("_norm_backward", TORCH_BOX(&rtopk::torch_binding::norm_backward));
  library.impl("_norm_compact_backward", TORCH_BOX(&rtopk::torch_binding::norm_compact_backward));
}

// No tensor has this backend. _functions.py calls operators with its dispatch key to skip all other dispatch layers. If
// aten::topk is called with autograd and this key, torch.topk's own C++ gradient wraps our selection. A gradient of our
// own would have to be written in Python.
STABLE_TORCH_LIBRARY_IMPL(rtopk, PrivateUse3, library) { RTOPK_IMPLEMENTATIONS(library); }
STABLE_TORCH_LIBRARY_IMPL(aten, PrivateUse3, library) { library.impl("topk", rtopk::torch_binding::boxed_topk); }

// If a dispatch layer (a mode, a tracer, a transform, a lazily negated tensor) must see a call of _plain_topk, these
// kernels return None and _functions.py takes another path. So the dispatcher answers questions that Python would have
// to ask one by one. An error would take longer than the call.
#define RTOPK_NOT_PLAIN(key)                                                                             \
  STABLE_TORCH_LIBRARY_IMPL(rtopk, key, library) {                                                       \
    RTOPK_PLAIN_TOPK(library, rtopk::torch_binding::boxed_no_topk, rtopk::torch_binding::boxed_no_topk); \
  }
RTOPK_NOT_PLAIN(Python)
RTOPK_NOT_PLAIN(PythonDispatcher)
RTOPK_NOT_PLAIN(PreDispatch)
RTOPK_NOT_PLAIN(Tracer)
RTOPK_NOT_PLAIN(Functionalize)
RTOPK_NOT_PLAIN(Negative)
RTOPK_NOT_PLAIN(Batched)
RTOPK_NOT_PLAIN(FuncTorchBatched)
RTOPK_NOT_PLAIN(FuncTorchGradWrapper)
RTOPK_NOT_PLAIN(FuncTorchDynamicLayerFrontMode)
RTOPK_NOT_PLAIN(FuncTorchDynamicLayerBackMode)

STABLE_TORCH_LIBRARY_IMPL(rtopk, CompositeExplicitAutograd, library) {
  library.impl("_route_topk", TORCH_BOX(&rtopk::torch_binding::route_topk));
  library.impl("_routed_calls", TORCH_BOX(&rtopk::torch_binding::routed_calls));
  library.impl("build_text", TORCH_BOX(&rtopk::torch_binding::build_text));
}
