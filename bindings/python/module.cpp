// rtopk._native: selection from any array, for python/rtopk.
#include <nanobind/nanobind.h>
#include <rtopk/rtopk.h>

NB_MODULE(_native, module) { module.attr("version") = rtopk_version(); }
