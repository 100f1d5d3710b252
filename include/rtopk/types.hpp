// Basic types of the API: element types, directions, orders, result forms and Status.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(_WIN32)
#define RTOPK_API
#else
#define RTOPK_API [[gnu::visibility("default")]]
#endif

namespace rtopk {

/// Type of the input elements and of the returned values.
enum class DType : std::uint8_t { f32, f16, bf16, f64, i32 };

/// Which elements are selected. NaN is the greatest value in both directions: `smallest` takes it last.
enum class Direction : std::uint8_t { largest, smallest };

/// Order of the k results within a row.
enum class Order : std::uint8_t {
  unsorted,  ///< The cheapest order; the same in every run. The CPU backend writes ascending indices.
  by_value,  ///< Best first: descending for `largest`, ascending for `smallest`; ties by ascending index.
  by_index,  ///< Ascending index.
};

/// What is written for each row.
enum class Form : std::uint8_t {
  pairs,  ///< k values and k indices. Either can be turned off.
  dense,  ///< The row with all unselected elements set to zero: the MaxK activation.
  mask,   ///< One byte per element: 1 if selected, else 0.
  cbsr,   ///< Compact balanced sparse rows: k values and k column selectors of 8 or 16 bits.
};

/// Type of the written indices: `i32` or `i64` for pairs, `u8` or `u16` for CBSR selectors.
enum class IndexType : std::uint8_t { i32, i64, u8, u16 };

/// How the threshold of a row is searched for. The result is the same; time and number of passes differ.
enum class Search : std::uint8_t {
  fast,       ///< As fast as the library can.
  bisection,  ///< As in the RTop-K paper, pass by pass, stopped early or run until exact: for studies.
};

/// What an early-stopped bisection (Problem::max_iter) selects, after passes that leave an interval [low, high) around
/// the kth value, and a last threshold, which is one of its ends.
enum class Rule : std::uint8_t {
  /// What the paper's kernel does: all elements at or above the last threshold, or the first k of them if they are more;
  /// if they are fewer, also elements at or above `low`, in index order. The authors' released code makes one pass more
  /// than its max_iter says.
  threshold_first,
  printed,  ///< Algorithm 2 as the paper prints it: the first k elements at or above `low`, in index order.
};

/// Kind of processor that holds the data and runs the plan.
enum class DeviceKind : std::uint8_t { cpu, cuda };

/// One processor: the CPU or a GPU.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int32_t ordinal = 0;  ///< Number of the GPU; 0 on the CPU.

  friend constexpr bool operator==(const Device&, const Device&) = default;
};

/// Bytes of one element, or 0 if `type` is not an enumerator.
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

/// Bytes of one index, or 0 if `type` is not an enumerator.
[[nodiscard]] constexpr std::size_t size_of(IndexType type) noexcept {
  switch (type) {
    case IndexType::u8: return 1;
    case IndexType::u16: return 2;
    case IndexType::i32: return 4;
    case IndexType::i64: return 8;
  }
  return 0;
}

/// The narrowest CBSR selector type for rows of `cols` elements. CBSR supports at most 65536 columns.
[[nodiscard]] constexpr IndexType selector_type(std::int64_t cols) noexcept {
  return cols <= 256 ? IndexType::u8 : IndexType::u16;
}

/// The name of the enumerator as spelled in this file, or "?" if the value is not an enumerator.
[[nodiscard]] RTOPK_API const char* name(DType type) noexcept;
[[nodiscard]] RTOPK_API const char* name(Direction direction) noexcept;
[[nodiscard]] RTOPK_API const char* name(Order order) noexcept;
[[nodiscard]] RTOPK_API const char* name(Form form) noexcept;
[[nodiscard]] RTOPK_API const char* name(IndexType type) noexcept;
[[nodiscard]] RTOPK_API const char* name(Search search) noexcept;
/// The name of the enumerator, or "?" if the value is not an enumerator.
[[nodiscard]] RTOPK_API const char* name(Rule rule) noexcept;
[[nodiscard]] RTOPK_API const char* name(DeviceKind kind) noexcept;

/// Outcome of a call.
enum class StatusCode : std::uint8_t {
  ok,                   ///< Success.
  invalid_argument,     ///< The text names the argument, its value and what would be accepted.
  not_supported,        ///< The request is valid, but this build or this machine cannot execute it.
  workspace_too_small,  ///< `Plan::workspace_bytes` is the required size.
  device_error,         ///< The device runtime reported an error; the text includes its message.
};

/// Result of a call: a code and a message. A plain value: copying it allocates nothing.
class [[nodiscard]] RTOPK_API Status {
 public:
  Status() noexcept { text_[0] = '\0'; }               ///< Success.
  Status(StatusCode code, const char* text) noexcept;  ///< Copies the text, truncated if it is too long.

  [[nodiscard]] bool ok() const noexcept { return code_ == StatusCode::ok; }
  [[nodiscard]] StatusCode code() const noexcept { return code_; }
  /// A message in one line that says what to change; empty on success. Valid as long as this object lives.
  [[nodiscard]] const char* text() const noexcept { return text_; }

 private:
  StatusCode code_ = StatusCode::ok;
  // Bytes after the terminating zero stay uninitialised: a small selection makes a dozen checks, and clearing them
  // costs.
  char text_[255];
};

}  // namespace rtopk
