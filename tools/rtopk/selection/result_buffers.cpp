#include "selection/result_buffers.hpp"

namespace rtopk::tool {
namespace {

std::size_t bytes_of(const ArraySpec& spec, std::int64_t rows) {
  return static_cast<std::size_t>(rows * spec.items_per_row) * spec.item_bytes;
}

}  // namespace

ResultBuffers::ResultBuffers(const Problem& problem, std::int64_t rows, Allocate allocate)
    : specs_(arrays_of(problem)) {
  for (const ArraySpec& spec : specs_) {
    memory_.push_back(allocate(bytes_of(spec, rows)));
    void* const data = memory_.back().get();
    switch (spec.part) {
      case Part::values: output_.values = data; break;
      case Part::indices: output_.indices = data; break;
      case Part::dense: output_.dense = data; break;
      case Part::mask: output_.mask = static_cast<std::uint8_t*>(data); break;
      case Part::passes: output_.passes = static_cast<std::int32_t*>(data); break;
      case Part::thresholds: output_.thresholds = data; break;
    }
  }
}

std::span<std::byte> ResultBuffers::part(std::size_t array, std::int64_t first, std::int64_t rows) const {
  return {memory_[array].get() + bytes_of(specs_[array], first), bytes_of(specs_[array], rows)};
}

std::size_t result_bytes_per_row(const Problem& problem) {
  std::size_t bytes = 0;
  for (const ArraySpec& spec : arrays_of(problem)) bytes += bytes_of(spec, 1);
  return bytes;
}

}  // namespace rtopk::tool
