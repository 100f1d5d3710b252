// Entry points of the families. Each is compiled once for every element type: see CMakeLists.txt. `rules` is null unless
// rows are general.
#pragma once

#include <cuda_runtime_api.h>

#include <rtopk/select.hpp>

#include "cuda/runtime/launch.hpp"
#include "cuda/select/arguments.hpp"
#include "cuda/select/row_rules.hpp"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_warp(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid);
/// cuda_warp for general rows.
template <class T>
cudaError_t launch_ragged(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid);
template <class T>
cudaError_t launch_tournament(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid);
/// cuda_tournament for general rows.
template <class T>
cudaError_t launch_uneven(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid);
template <class T>
cudaError_t launch_block(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid);
template <class T>
cudaError_t launch_filter(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid);
template <class T>
cudaError_t launch_cluster(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid);
template <class T>
cudaError_t launch_radix(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid);
template <class T>
cudaError_t launch_scan(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid);
/// Sorts by value the results that another family has written in index order.
template <class T>
cudaError_t launch_sort(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid);

}  // namespace rtopk::cuda
