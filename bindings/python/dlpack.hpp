// Arrays of any library that has DLPack's protocol, read from their capsules; and results that have it.
#pragma once

#include <nanobind/nanobind.h>

#include "array.hpp"
#include "results.hpp"

namespace rtopk::python_binding {

/// An array in host memory that another library lends. It is given back when this is destroyed.
class Lent {
 public:
  /// Asks `owner` for a capsule: owner.__dlpack__(). Throws BufferError if that is not what DLPack says.
  explicit Lent(nanobind::handle owner);
  ~Lent();
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  const Array& array() const { return array_; }

 private:
  void take(nanobind::handle capsule);

  void* managed_ = nullptr;
  void (*give_back_)(void*) = nullptr;
  Array array_;
};

/// Results as objects with __dlpack__, for from_dlpack of the caller's library.
class DlpackAllocator final : public Allocator {
 public:
  explicit DlpackAllocator(DType dtype) : dtype_(dtype) {}

  Result make(const Shape& shape, std::int64_t axis, ResultType type, bool zero) override;
  Result workspace(std::size_t bytes) override;

 private:
  DType dtype_;
};

}  // namespace rtopk::python_binding
