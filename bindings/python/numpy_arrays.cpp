// Arrays of NumPy.
#include "numpy_arrays.hpp"

#include <stdexcept>
#include <string>

#include "errors.hpp"

namespace rtopk::python_binding {
namespace {

namespace nb = nanobind;

/// What a capsule of __array_struct__ holds, as NumPy's array interface (version 3) describes it.
struct ArrayInterface {
  static constexpr int kNotSwapped = 0x200;

  int version;  // 2
  int dims;
  char kind;
  int item_bytes;
  int flags;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  void* data;
  PyObject* descr;
};

/// What is looked up once. Never freed: modules are not, as a rule, and a destructor at exit would come too late.
struct Names {
  nb::object array_struct = interned("__array_struct__");
  nb::object dtype = interned("dtype");
  nb::object empty, zeros;
  nb::object types[6];  // by ResultType; of elements none
  nb::object bfloat16;  // of ml_dtypes, once it was seen

  Names() {
    const nb::module_ numpy = nb::module_::import_("numpy");
    empty = numpy.attr("empty");
    zeros = numpy.attr("zeros");
    const char* const names[] = {nullptr, "int64", "int32", "uint16", "uint8", "bool"};
    for (int i = 1; i < 6; ++i) types[i] = numpy.attr("dtype")(names[i]);
  }

  static nb::object interned(const char* text) { return nb::steal(PyUnicode_InternFromString(text)); }
};

Names& names() {
  static Names* const all = new Names;
  return *all;
}

nb::object attribute(nb::handle object, nb::handle name) {
  PyObject* const found = PyObject_GetAttr(object.ptr(), name.ptr());
  if (found == nullptr) throw nb::python_error();
  return nb::steal(found);
}

/// The description of an array, alive as long as this is.
class Described {
 public:
  explicit Described(nb::handle array) : capsule_(attribute(array, names().array_struct)) {
    interface_ = static_cast<const ArrayInterface*>(PyCapsule_GetPointer(capsule_.ptr(), nullptr));
    if (interface_ == nullptr) throw nb::python_error();
  }
  const ArrayInterface* operator->() const { return interface_; }

 private:
  nb::object capsule_;
  const ArrayInterface* interface_;
};

bool is_bfloat16(nb::handle array) {
  const nb::object dtype = attribute(array, names().dtype);
  nb::object& known = names().bfloat16;
  if (known.is_valid() && known.is(dtype)) return true;
  if (nb::str(dtype.attr("name")).equal(nb::str("bfloat16"))) {
    known = dtype;
    return true;
  }
  return false;
}

DType type_of(nb::handle array, const ArrayInterface& seen) {
  if (seen.kind == 'f') {
    if (seen.item_bytes == 4) return DType::f32;
    if (seen.item_bytes == 8) return DType::f64;
    if (seen.item_bytes == 2) return DType::f16;
  }
  if (seen.kind == 'i' && seen.item_bytes == 4) return DType::i32;
  if (seen.kind == 'V' && seen.item_bytes == 2 && is_bfloat16(array)) return DType::bf16;
  refuse(PyExc_TypeError, std::string("a has dtype ") + nb::str(attribute(array, names().dtype)).c_str() +
                              "; accepted: " + kAcceptedTypes);
}

}  // namespace

Array view_of_numpy(nb::handle array) {
  const Described seen(array);
  Array view;
  view.dtype = type_of(array, *seen.operator->());
  view.data = static_cast<const std::byte*>(seen->data);
  view.swapped = (seen->flags & ArrayInterface::kNotSwapped) == 0;
  view.shape.dims = seen->dims;
  if (seen->dims > kMaxDims) {
    refuse(PyExc_ValueError, "a has " + std::to_string(seen->dims) + " dimensions; accepted: at most 64");
  }
  for (int i = 0; i < seen->dims; ++i) {
    view.shape.each[i] = seen->shape[i];
    view.strides[i] = seen->strides[i];
  }
  return view;
}

Result NumpyAllocator::make(const Shape& shape, std::int64_t axis, ResultType type, bool zero) {
  nb::object dtype;
  if (type != ResultType::elements) {
    dtype = names().types[static_cast<int>(type)];
  } else {
    dtype = attribute(like_, names().dtype);
    if (swapped_) dtype = dtype.attr("newbyteorder")("=");
  }
  const bool last = axis == shape.dims - 1;
  const nb::object sizes = as_tuple(last ? shape : with_last(shape, axis));
  PyObject* const made = PyObject_CallFunctionObjArgs((zero ? names().zeros : names().empty).ptr(), sizes.ptr(),
                                                      dtype.ptr(), static_cast<PyObject*>(nullptr));
  if (made == nullptr) throw nb::python_error();
  nb::object array = nb::steal(made);
  void* const data = Described(array)->data;
  return {with_axis(std::move(array), shape.dims, axis), data};
}

Result NumpyAllocator::workspace(std::size_t) { throw std::logic_error("arrays of NumPy are not on a GPU"); }

}  // namespace rtopk::python_binding
