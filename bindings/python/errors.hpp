// Python exceptions with the library's texts.
#pragma once

#include <string>

#include <nanobind/nanobind.h>
#include <rtopk/types.hpp>

namespace rtopk::python_binding {

[[noreturn]] inline void refuse(PyObject* kind, const std::string& text) {
  PyErr_SetString(kind, text.c_str());
  throw nanobind::python_error();
}

/// Throws what a status says, if it is not ok.
inline void check(const Status& status) {
  switch (status.code()) {
    case StatusCode::ok: return;
    case StatusCode::invalid_argument: refuse(PyExc_ValueError, status.text());
    case StatusCode::not_supported: refuse(PyExc_NotImplementedError, status.text());
    case StatusCode::workspace_too_small:
    case StatusCode::device_error: break;
  }
  refuse(PyExc_RuntimeError, status.text());
}

}  // namespace rtopk::python_binding
