// Names of the enumerators of rtopk, and the constructor of Status.
#include <cstring>

#include <rtopk/select.hpp>
#include <rtopk/types.hpp>

namespace rtopk {

Status::Status(StatusCode code, const char* text) noexcept : code_(code) {
  std::strncpy(text_, text, sizeof text_ - 1);
  text_[sizeof text_ - 1] = '\0';
}

const char* name(DType type) noexcept {
  switch (type) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
  }
  return "?";
}

const char* name(Direction direction) noexcept {
  switch (direction) {
    case Direction::largest: return "largest";
    case Direction::smallest: return "smallest";
  }
  return "?";
}

const char* name(Order order) noexcept {
  switch (order) {
    case Order::unsorted: return "unsorted";
    case Order::by_value: return "by_value";
    case Order::by_index: return "by_index";
  }
  return "?";
}

const char* name(Form form) noexcept {
  switch (form) {
    case Form::pairs: return "pairs";
    case Form::dense: return "dense";
    case Form::mask: return "mask";
    case Form::cbsr: return "cbsr";
  }
  return "?";
}

const char* name(IndexType type) noexcept {
  switch (type) {
    case IndexType::i32: return "i32";
    case IndexType::i64: return "i64";
    case IndexType::u8: return "u8";
    case IndexType::u16: return "u16";
  }
  return "?";
}

const char* name(Search search) noexcept {
  switch (search) {
    case Search::fast: return "fast";
    case Search::bisection: return "bisection";
  }
  return "?";
}

const char* name(Rule rule) noexcept {
  switch (rule) {
    case Rule::threshold_first: return "threshold_first";
    case Rule::printed: return "printed";
  }
  return "?";
}

const char* name(ArrayType type) noexcept {
  switch (type) {
    case ArrayType::none: return "none";
    case ArrayType::i32: return "i32";
    case ArrayType::i64: return "i64";
  }
  return "?";
}

const char* name(IndexKind kind) noexcept {
  switch (kind) {
    case IndexKind::column: return "column";
    case IndexKind::ids: return "ids";
    case IndexKind::pages: return "pages";
    case IndexKind::shifted: return "shifted";
  }
  return "?";
}

const char* name(DeviceKind kind) noexcept {
  switch (kind) {
    case DeviceKind::cpu: return "cpu";
    case DeviceKind::cuda: return "cuda";
  }
  return "?";
}

const char* name(Family family) noexcept {
  switch (family) {
    case Family::reference: return "reference";
    case Family::cpu_lanes: return "cpu_lanes";
    case Family::cpu_best: return "cpu_best";
    case Family::cpu_row: return "cpu_row";
    case Family::cpu_stream: return "cpu_stream";
    case Family::cpu_bisection: return "cpu_bisection";
    case Family::cuda_warp: return "cuda_warp";
    case Family::cuda_tournament: return "cuda_tournament";
    case Family::cuda_block: return "cuda_block";
    case Family::cuda_filter: return "cuda_filter";
    case Family::cuda_cluster: return "cuda_cluster";
    case Family::cuda_radix: return "cuda_radix";
    case Family::cuda_scan: return "cuda_scan";
  }
  return "?";
}

}  // namespace rtopk
