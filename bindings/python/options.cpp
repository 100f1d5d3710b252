// Python's arguments as a Problem.
#include "options.hpp"

#include <string>

#include "errors.hpp"

namespace rtopk::python_binding {
namespace {

namespace nb = nanobind;

std::string shown(nb::handle value) { return nb::repr(value).c_str(); }

std::int64_t integer(const char* name, nb::handle value, const char* accepted) {
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) {
    PyErr_Clear();
    refuse(PyExc_TypeError, std::string(name) + " is " + shown(value) + "; accepted: " + accepted);
  }
  const long long result = PyLong_AsLongLong(number.ptr());
  if (result == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse(PyExc_ValueError, std::string(name) + " is " + shown(value) + "; accepted: " + accepted);
  }
  return result;
}

/// 0 or 1: which of the two texts it is.
int one_of(const char* name, nb::handle value, const char* first, const char* second) {
  if (is_text(value, first)) return 0;
  if (is_text(value, second)) return 1;
  refuse(PyUnicode_Check(value.ptr()) ? PyExc_ValueError : PyExc_TypeError,
         std::string(name) + " is " + shown(value) + "; accepted: '" + first + "' or '" + second + "'");
}

/// A name such as "int32", or a dtype of any library: these have their name as `name`, types of scalars as `__name__`.
IndexType index_type(nb::handle value) {
  if (value.is_none()) return IndexType::i64;
  nb::object name = nb::borrow(value);
  if (!PyUnicode_Check(name.ptr())) name = nb::getattr(value, "name", nb::none());
  if (!PyUnicode_Check(name.ptr())) name = nb::getattr(value, "__name__", nb::none());
  if (is_text(name, "int64")) return IndexType::i64;
  if (is_text(name, "int32")) return IndexType::i32;
  refuse(PyUnicode_Check(value.ptr()) ? PyExc_ValueError : PyExc_TypeError,
         "index_dtype is " + shown(value) + "; accepted: 'int64' or 'int32', or a dtype of these names");
}

double number(const char* name, nb::handle value) {
  const double result = PyFloat_AsDouble(value.ptr());
  if (result == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse(PyExc_TypeError, std::string(name) + " is " + shown(value) + "; accepted: a number from 0 to 1");
  }
  return result;
}

}  // namespace

bool is_text(nb::handle value, const char* text) {
  return PyUnicode_Check(value.ptr()) && PyUnicode_CompareWithASCIIString(value.ptr(), text) == 0;
}

bool truth(const char* name, nb::handle value) {
  if (value.ptr() == Py_True) return true;
  if (value.ptr() == Py_False) return false;
  refuse(PyExc_TypeError, std::string(name) + " is " + shown(value) + "; accepted: True or False");
}

std::int64_t integer_in(const char* name, nb::handle value, std::int64_t most, const char* accepted) {
  const std::int64_t result = integer(name, value, accepted);
  if (result < 1 || result > most) {
    refuse(PyExc_ValueError, std::string(name) + " is " + shown(value) + "; accepted: " + accepted);
  }
  return result;
}

Options parse_options(int form, nb::handle others) {
  const Py_ssize_t count = PyTuple_CheckExact(others.ptr()) ? PyTuple_Size(others.ptr()) : 0;
  if (count < 11 || count > 12 || form < 0 || form > 3) {
    refuse(PyExc_TypeError, "a form and a tuple of 11 or 12 options are wanted");
  }
  const auto option = [&](Py_ssize_t i) { return nb::handle(PyTuple_GetItem(others.ptr(), i)); };
  const nb::handle k = option(0), axis = option(1), mode = option(2), sorted = option(3), nan = option(4);
  const nb::handle max_iter = option(5), epsilon = option(6), rule = option(7), search = option(8);
  const nb::handle threads = option(9), index_dtype = option(10);
  Options options;
  Problem& problem = options.problem;
  problem.form = static_cast<Form>(form);
  problem.k = integer("k", k, "an integer");
  options.axis = integer("axis", axis, "an integer");
  problem.direction = one_of("mode", mode, "largest", "smallest") == 0 ? Direction::largest : Direction::smallest;
  problem.order = truth("sorted", sorted) ? Order::by_value : Order::unsorted;
  options.nan_last = one_of("nan", nan, "first", "last") == 1;
  if (!max_iter.is_none()) {
    problem.max_iter = static_cast<std::int32_t>(integer_in("max_iter", max_iter, 10000, "None, or 1 to 10000"));
  }
  problem.epsilon = number("epsilon", epsilon);
  problem.rule = one_of("rule", rule, "threshold_first", "printed") == 0 ? Rule::threshold_first : Rule::printed;
  problem.search = one_of("search", search, "fast", "bisection") == 0 ? Search::fast : Search::bisection;
  if (!threads.is_none()) {
    options.threads = static_cast<std::int32_t>(integer_in("threads", threads, 4096, "None, or 1 to 4096"));
  }
  problem.index_type = index_type(index_dtype);
  if (count > 11) options.rows = option(11);
  return options;
}

}  // namespace rtopk::python_binding
