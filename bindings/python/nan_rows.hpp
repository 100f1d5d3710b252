// Selection of the largest with NaN behind all numbers, in host memory.
#pragma once

#include <rtopk/select.hpp>

namespace rtopk::python_binding {

/// Selects again in the rows of `plan` whose results have a NaN, so that NaN is selected after all numbers. The plan
/// has run: it selected the largest, with NaN on top. Other rows are left as they are.
Status put_nan_last(const Plan& plan, const void* input, const Output& output, const Traits& traits);

}  // namespace rtopk::python_binding
