// Reads DLPack's capsules, which anyone can make: nothing in them is believed before it was checked.
#include "dlpack.hpp"

#include <cstdlib>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include <nanobind/ndarray.h>

#include "errors.hpp"

namespace rtopk::python_binding {
namespace {

namespace nb = nanobind;
using nb::dlpack::dltensor;

// The two things that a capsule can hold, as DLPack defines them.

struct Unversioned {  // "dltensor"
  dltensor tensor;
  void* context;
  void (*deleter)(Unversioned*);
};

struct Versioned {  // "dltensor_versioned"
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  dltensor tensor;
};

constexpr int kCpu = 1, kCudaHost = 3;
constexpr std::uint32_t kMajor = 1;

[[noreturn]] void bad(const std::string& text) { refuse(PyExc_BufferError, "a.__dlpack__(): " + text); }

DType type_of(const nb::dlpack::dtype& type) {
  using Code = nb::dlpack::dtype_code;
  if (type.lanes == 1) {
    const auto is = [&](Code code, int bits) { return type.code == static_cast<int>(code) && type.bits == bits; };
    if (is(Code::Float, 32)) return DType::f32;
    if (is(Code::Float, 16)) return DType::f16;
    if (is(Code::Bfloat, 16)) return DType::bf16;
    if (is(Code::Float, 64)) return DType::f64;
    if (is(Code::Int, 32)) return DType::i32;
  }
  refuse(PyExc_TypeError, "a has DLPack's type code " + std::to_string(type.code) + " with " +
                              std::to_string(type.bits) + " bits and " + std::to_string(type.lanes) +
                              " lanes; accepted: " + kAcceptedTypes);
}

/// How many bytes lie between the first and the last element; nothing if that does not fit in 63 bits.
std::optional<std::int64_t> span(const Array& array) {
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < array.shape.dims; ++i) {
    const std::int64_t stride = array.strides[i];
    if (stride == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
    std::int64_t steps = 0;
    if (__builtin_mul_overflow(array.shape.each[i] - 1, stride < 0 ? -stride : stride, &steps) ||
        __builtin_add_overflow(total, steps, &total)) {
      return std::nullopt;
    }
  }
  return total;
}

/// The array that a capsule describes.
Array checked(const dltensor& tensor) {
  Array array;
  if (tensor.device.device_type != kCpu && tensor.device.device_type != kCudaHost) {
    bad("the capsule is of device type " + std::to_string(tensor.device.device_type) +
        ", and __dlpack_device__() said host memory");
  }
  if (tensor.ndim < 0 || tensor.ndim > kMaxDims) {
    bad("the capsule has " + std::to_string(tensor.ndim) + " dimensions; accepted: 0 to 64");
  }
  array.dtype = type_of(tensor.dtype);
  array.shape.dims = tensor.ndim;
  if (tensor.ndim > 0 && tensor.shape == nullptr) bad("the capsule has no shape");
  const auto item = static_cast<std::int64_t>(size_of(array.dtype));
  std::int64_t bytes = item;
  bool empty = false;
  for (int i = tensor.ndim; i-- > 0;) {
    const std::int64_t size = array.shape.each[i] = tensor.shape[i];
    if (size < 0) bad("dimension " + std::to_string(i) + " has size " + std::to_string(size));
    empty = empty || size == 0;
    array.strides[i] = bytes;
    if (tensor.strides != nullptr && __builtin_mul_overflow(tensor.strides[i], item, &array.strides[i])) {
      bad("stride " + std::to_string(i) + " is " + std::to_string(tensor.strides[i]) + ", which is out of range");
    }
    if (__builtin_mul_overflow(bytes, size == 0 ? 1 : size, &bytes)) bad("the sizes do not fit in 63 bits");
  }
  if (empty) return array;
  if (!span(array)) bad("the strides do not fit in 63 bits");
  if (tensor.data == nullptr) bad("the capsule has elements and no address of them");
  array.data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  return array;
}

/// The producer's capsule. Those from before DLPack 1.0 do not know max_version, which is how a read-only array is lent.
nb::object capsule_of(nb::handle owner) {
  const nb::object method = owner.attr("__dlpack__");
  try {
    return method(nb::arg("max_version") = nb::make_tuple(1, 1));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method();
}

}  // namespace

Lent::Lent(nb::handle owner) {
  const nb::object capsule = capsule_of(owner);
  try {
    take(capsule);
  } catch (...) {
    if (give_back_ != nullptr) give_back_(managed_);
    throw;
  }
}

void Lent::take(nb::handle capsule) {
  if (!PyCapsule_CheckExact(capsule.ptr())) bad(std::string("it gave ") + nb::repr(capsule).c_str() + ", no capsule");
  const auto claim = [&](const char* used) {
    // From here on the capsule's own destructor leaves the memory to us.
    if (PyCapsule_SetName(capsule.ptr(), used) != 0) throw nb::python_error();
  };
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    auto* const managed = static_cast<Versioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    claim("used_dltensor_versioned");
    managed_ = managed;
    if (managed->deleter != nullptr) {
      give_back_ = [](void* each) { static_cast<Versioned*>(each)->deleter(static_cast<Versioned*>(each)); };
    }
    if (managed->major != kMajor) {
      bad("the capsule has DLPack " + std::to_string(managed->major) + "." + std::to_string(managed->minor) +
          "; accepted: 1.x");
    }
    array_ = checked(managed->tensor);
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor") != 0) {
    auto* const managed = static_cast<Unversioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    claim("used_dltensor");
    managed_ = managed;
    if (managed->deleter != nullptr) {
      give_back_ = [](void* each) { static_cast<Unversioned*>(each)->deleter(static_cast<Unversioned*>(each)); };
    }
    array_ = checked(managed->tensor);
  } else {
    const char* const name = PyCapsule_GetName(capsule.ptr());
    PyErr_Clear();
    bad(std::string("the capsule's name is ") + (name != nullptr ? "'" + std::string(name) + "'" : "missing") +
        "; accepted: 'dltensor_versioned' or 'dltensor', each of which can be read once");
  }
}

Lent::~Lent() {
  if (give_back_ != nullptr) give_back_(managed_);
}

Result DlpackAllocator::make(const Shape& shape, std::int64_t axis, ResultType type, bool zero) {
  using Code = nb::dlpack::dtype_code;
  Code code = Code::Int;
  std::size_t bits = 64;
  switch (type) {
    case ResultType::elements:
      bits = 8 * size_of(dtype_);
      code = dtype_ == DType::i32 ? Code::Int : dtype_ == DType::bf16 ? Code::Bfloat : Code::Float;
      break;
    case ResultType::i64: break;
    case ResultType::i32: bits = 32; break;
    case ResultType::u16: code = Code::UInt, bits = 16; break;
    case ResultType::u8: code = Code::UInt, bits = 8; break;
    case ResultType::boolean: code = Code::Bool, bits = 8; break;
  }
  // Strides count elements; the axis comes last in memory.
  std::int64_t strides[kMaxDims];
  std::size_t sizes[kMaxDims];
  std::int64_t elements = 1;
  bool empty = false;
  const auto place = [&](std::int64_t i) {
    strides[i] = elements;
    sizes[i] = static_cast<std::size_t>(shape.each[i]);
    empty = empty || sizes[i] == 0;
    if (__builtin_mul_overflow(elements, shape.each[i] == 0 ? 1 : shape.each[i], &elements)) throw std::bad_alloc();
  };
  if (axis >= 0) place(axis);
  for (std::int64_t i = shape.dims; i-- > 0;) {
    if (i != axis) place(i);
  }
  std::int64_t bytes = 1;
  if (!empty && __builtin_mul_overflow(elements, static_cast<std::int64_t>(bits / 8), &bytes)) throw std::bad_alloc();
  void* const data =
      zero ? std::calloc(static_cast<std::size_t>(bytes), 1) : std::malloc(static_cast<std::size_t>(bytes));
  if (data == nullptr) throw std::bad_alloc();
  const nb::capsule owner(data, [](void* memory) noexcept { std::free(memory); });
  const nb::ndarray<nb::array_api> array(
      data, static_cast<std::size_t>(shape.dims), sizes, owner, strides,
      nb::dlpack::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1}, kCpu);
  return {nb::cast(array), data};
}

Result DlpackAllocator::workspace(std::size_t) { throw std::logic_error("these arrays are not on a GPU"); }

}  // namespace rtopk::python_binding
