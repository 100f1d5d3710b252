// The vocabulary of rtopk: element types, directions, orders, forms of the result, and Status.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(_WIN32)
#define RTOPK_API
#else
#define RTOPK_API [[gnu::visibility("default")]]
#endif

namespace rtopk {

/// Type of the matrix's elements and of the values that are returned.
enum class DType : std::uint8_t { f32, f16, bf16, f64, i32 };

/// Which end of the order is selected. NaN is the greatest value in both: `smallest` takes it last.
enum class Direction : std::uint8_t { largest, smallest };

/// Order of the k results within a row.
enum class Order : std::uint8_t {
  unsorted,  ///< Whatever costs least, the same on every run. The CPU backend writes ascending indices.
  by_value,  ///< Best first: descending for `largest`, ascending for `smallest`; ties by ascending index.
  by_index,  ///< Ascending index.
};

/// What is written for a row.
enum class Form : std::uint8_t {
  pairs,  ///< k values and k indices (either may be left out).
  dense,  ///< The row with everything that was not selected set to zero: the MaxK activation.
  mask,   ///< One byte per element: 1 where it was selected, else 0.
  cbsr,   ///< Compact balanced sparse rows: k values and k column selectors of 8 or 16 bits.
};

/// Type of the written indices: `i32` or `i64` for pairs, `u8` or `u16` for CBSR selectors.
enum class IndexType : std::uint8_t { i32, i64, u8, u16 };

/// How an exact selection looks for its threshold. The result is the same; the time and the passes differ.
enum class Search : std::uint8_t {
  fast,       ///< The library's own search.
  bisection,  ///< The paper's Algorithm 1 run to the end: for studies of its number of passes.
};

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int32_t ordinal = 0;  ///< Which GPU; 0 on the CPU.

  friend constexpr bool operator==(const Device&, const Device&) = default;
};

/// Bytes of one element, or 0 if `type` is none of the enumerators.
[[nodiscard]] constexpr std::size_t size_of(DType type) noexcept {
  switch (type) {
    case DType::f16:
    case DType::bf16: return 2;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f64: return 8;
  }
  return 0;
}

/// Bytes of one index, or 0 if `type` is none of the enumerators.
[[nodiscard]] constexpr std::size_t size_of(IndexType type) noexcept {
  switch (type) {
    case IndexType::u8: return 1;
    case IndexType::u16: return 2;
    case IndexType::i32: return 4;
    case IndexType::i64: return 8;
  }
  return 0;
}

/// The narrowest CBSR selector for rows of `cols` elements (CBSR takes at most 65536 columns).
[[nodiscard]] constexpr IndexType selector_type(std::int64_t cols) noexcept {
  return cols <= 256 ? IndexType::u8 : IndexType::u16;
}

/// The enumerator's name as it is written in this file, or "?".
[[nodiscard]] RTOPK_API const char* name(DType type) noexcept;
[[nodiscard]] RTOPK_API const char* name(Direction direction) noexcept;
[[nodiscard]] RTOPK_API const char* name(Order order) noexcept;
[[nodiscard]] RTOPK_API const char* name(Form form) noexcept;
[[nodiscard]] RTOPK_API const char* name(IndexType type) noexcept;
[[nodiscard]] RTOPK_API const char* name(Search search) noexcept;
[[nodiscard]] RTOPK_API const char* name(DeviceKind kind) noexcept;

enum class StatusCode : std::uint8_t {
  ok,
  invalid_argument,     ///< The text names the argument, its value and what would be accepted.
  not_supported,        ///< Valid, but this build or this machine cannot do it.
  workspace_too_small,  ///< `Plan::workspace_bytes` says how much is needed.
  device_error,         ///< The device runtime reported an error; its own text is included.
};

/// The outcome of a call. A plain value: copying it allocates nothing.
class [[nodiscard]] RTOPK_API Status {
 public:
  Status() noexcept { text_[0] = '\0'; }  ///< Success.
  Status(StatusCode code, const char* text) noexcept;

  [[nodiscard]] bool ok() const noexcept { return code_ == StatusCode::ok; }
  [[nodiscard]] StatusCode code() const noexcept { return code_; }
  /// One line that helps, empty on success. Valid as long as this object.
  [[nodiscard]] const char* text() const noexcept { return text_; }

 private:
  StatusCode code_ = StatusCode::ok;
  char text_[255];  // the rest is not cleared: a small selection has a dozen checks in front of it
};

}  // namespace rtopk
