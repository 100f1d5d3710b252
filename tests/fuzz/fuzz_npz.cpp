// Fuzzes the .npz reader: bytes are read as a saved selection or rejected with one line of text. The result must be
// consistent. The same bytes are also read as meta text alone, which a fuzzer would hardly find inside a zip file.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <files/crc32.hpp>
#include <selection/saved.hpp>
#include <terminal/failure.hpp>

namespace {

using namespace rtopk;
using namespace rtopk::tool;
using Bytes = std::span<const std::byte>;

constexpr std::size_t max_path = 4096;  // the longest path on supported systems

void require_that(bool condition) {
  if (!condition) std::abort();
}

void require_a_line(std::string_view text) {
  require_that(!text.empty() && text.size() < 2000);
  require_that(text.find('\n') == std::string_view::npos);
}

bool is_within(Bytes part, Bytes whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

bool overlap(Bytes a, Bytes b) { return a.data() < b.data() + b.size() && b.data() < a.data() + a.size(); }

/// A text as an array, as in files.
class MetaArray {
 public:
  explicit MetaArray(std::string_view text) {
    for (const char c : text) wide_.append({c, '\0', '\0', '\0'});
    NpzArray& array = arrays_[meta_name];
    array.header.kind = 'U';
    array.header.data_bytes = wide_.size();
    array.data = array.entry = std::as_bytes(std::span<const char>(wide_));
    array.crc = crc32(0, array.entry);
  }
  MetaArray(const MetaArray&) = delete;
  MetaArray& operator=(const MetaArray&) = delete;
  [[nodiscard]] const NpzArrays& arrays() const { return arrays_; }

 private:
  std::string wide_;
  NpzArrays arrays_;
};

/// Meta text that was read must survive writing and reading again, and the library must accept or reject its problem.
void use_meta(const NpzArrays& arrays) {
  std::optional<Meta> meta;
  try {
    meta = read_meta(arrays);
  } catch (const Failure& failure) {
    require_a_line(failure.what());
    return;
  }
  if (!meta) return;
  require_that(meta->problem.rows >= 0 && meta->problem.cols >= 0 && meta->problem.k >= 0);
  require_that(meta->problem.max_iter >= 0);
  Plan plan;
  if (!make_plan(meta->problem, Traits{}, Family::reference, plan).ok()) return;
  if (meta->provenance.file.size() < max_path) {
    const MetaArray again(meta_text(meta->problem, meta->provenance));
    const std::optional<Meta> twice = read_meta(again.arrays());
    require_that(twice && twice->problem == meta->problem && twice->provenance.file == meta->provenance.file);
    require_that(twice->provenance.random.has_value() == meta->provenance.random.has_value());
  }
  std::uint64_t bytes = 0;
  for (const auto& [name, array] : arrays) bytes += array.data.size();
  try {
    static_cast<void>(find_results(arrays, meta->problem, {meta->problem.rows}));
    std::uint64_t wanted = 0;
    for (const ArraySpec& spec : arrays_of(meta->problem)) {
      wanted += static_cast<std::uint64_t>(meta->problem.rows * spec.items_per_row) * spec.item_bytes;
    }
    require_that(wanted <= bytes);
  } catch (const Failure& failure) {
    require_a_line(failure.what());
  }
}

void use_file(Bytes file) {
  NpzArrays arrays;
  try {
    arrays = parse_saved(file);
  } catch (const NpyError& error) {
    require_a_line(error.what());
    return;
  }
  std::vector<Bytes> entries;
  for (const auto& [name, array] : arrays) {
    require_that(is_within(array.entry, file) && is_within(array.data, array.entry));
    require_that(array.data.size() == array.header.data_bytes);
    for (const Bytes other : entries) require_that(array.entry.empty() || !overlap(array.entry, other));
    entries.push_back(array.entry);
  }
  use_meta(arrays);
  for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{2}, std::int64_t{1} << 62}) {
    try {
      const Problem problem = guess_problem(arrays, rows, 5, DType::f32);
      Plan plan;
      if (make_plan(problem, Traits{}, Family::reference, plan).ok())
        static_cast<void>(find_results(arrays, problem, {rows}));
    } catch (const Failure& failure) {
      require_a_line(failure.what());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  use_file(std::as_bytes(std::span(data, size)));
  use_meta(MetaArray({reinterpret_cast<const char*>(data), size}).arrays());
  return 0;
}
