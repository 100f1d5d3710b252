#include "selection/saved.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <string_view>

#include <nlohmann/json.hpp>

#include "files/crc32.hpp"
#include "selection/names.hpp"
#include "terminal/failure.hpp"
#include "terminal/text.hpp"

namespace rtopk::tool {
namespace {

using Json = nlohmann::ordered_json;

// Enough for the longest file name: 4096 bytes, each written as \uXXXX, are 24576 characters of 4 bytes.
constexpr std::uint64_t max_meta_bytes = std::uint64_t{256} << 10;

/// NumPy's name of the type in a file. bf16 is written as uint16.
const char* npy_descr(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32: return "<f4";
    case DType::f16: return "<f2";
    case DType::bf16: return "<u2";
    case DType::f64: return "<f8";
    case DType::i32: return "<i4";
  }
  return "?";
}

const char* npy_descr(IndexType type) noexcept {
  switch (type) {
    case IndexType::i32: return "<i4";
    case IndexType::i64: return "<i8";
    case IndexType::u8: return "|u1";
    case IndexType::u16: return "<u2";
  }
  return "?";
}

template <typename T>
T known(std::optional<T> value, const char* key) {
  if (!value) fail("its meta text has an unknown value of '{}'", key);
  return *value;
}

/// Checks the range of a number before converting it: a JSON number can be anything.
std::int64_t whole_number(const Json& json, const char* key, std::int64_t largest) {
  const Json& value = json.at(key);
  const bool whole = value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(largest);
  if (!whole) {
    fail("its meta text has {} as '{}'; accepted: a whole number from 0 to {}",
         value.is_number() ? value.dump() : value.type_name(), key, largest);
  }
  return value.get<std::int64_t>();
}

Meta meta_from(const Json& json) {
  const auto text = [&](const char* key) { return json.at(key).get<std::string>(); };
  constexpr std::int64_t any_size = std::numeric_limits<std::int64_t>::max();
  Meta meta;
  Problem& problem = meta.problem;
  problem.rows = whole_number(json, "rows", any_size);
  problem.cols = whole_number(json, "cols", any_size);
  problem.k = whole_number(json, "k", any_size);
  problem.dtype = known(value_named<DType>(text("dtype")), "dtype");
  problem.direction = known(value_named<Direction>(text("direction")), "direction");
  problem.order = known(value_named<Order>(text("order")), "order");
  problem.form = known(value_named<Form>(text("form")), "form");
  problem.index_type = known(value_named<IndexType>(text("index_type")), "index_type");
  problem.values = json.at("values").get<bool>();
  problem.indices = json.at("indices").get<bool>();
  problem.passes = json.at("passes").get<bool>();
  problem.max_iter =
      static_cast<std::int32_t>(whole_number(json, "max_iter", std::numeric_limits<decltype(problem.max_iter)>::max()));
  problem.rule = known(value_named<Rule>(text("rule")), "rule");
  problem.epsilon = json.at("epsilon").get<double>();  // the library checks its range
  problem.search = known(value_named<Search>(text("search")), "search");
  if (json.contains("general_rows")) {
    fail("it was made with {}, which `rtopk verify` does not know; accepted: selections by value from whole rows",
         json.at("general_rows").get<std::string>());
  }
  const Json& input = json.at("input");
  if (input.contains("file")) {
    meta.provenance.file = input.at("file").get<std::string>();
  } else {
    const Json& seed = input.at("seed");
    if (!seed.is_number_unsigned()) fail("its meta text has a 'seed' that is not a whole number from 0 to 2^64 - 1");
    meta.provenance.random =
        RandomInput{.rows = problem.rows,
                    .cols = problem.cols,
                    .distribution = known(value_named<Distribution>(input.at("random").get<std::string>()), "random"),
                    .seed = seed.get<std::uint64_t>()};
  }
  return meta;
}

/// The options that `rtopk select` was given for general rows.
std::string general_options(const Problem& problem) {
  std::string options;
  const auto add = [&](bool given, const char* option) {
    if (!given) return;
    if (!options.empty()) options += ' ';
    options += option;
  };
  add(problem.ragged.lengths != ArrayType::none, "--lengths");
  add(problem.ragged.starts != ArrayType::none, "--starts");
  add(problem.ragged.offsets != ArrayType::none, "--offsets");
  add(problem.ragged.k != ArrayType::none, "--row-k");
  add(problem.index_map.kind == IndexKind::ids, "--ids");
  add(problem.magnitude, "--magnitude");
  return options;
}

void check_sum(const std::string& array_name, const NpzArray& array) {
  if (crc32(0, array.entry) != array.crc) fail("the checksum of its array '{}' is wrong", array_name);
}

}  // namespace

std::vector<std::int64_t> ArraySpec::shape(const std::vector<std::int64_t>& leading) const {
  std::vector<std::int64_t> result = leading;
  if (!one_per_row) result.push_back(items_per_row);
  return result;
}

std::vector<ArraySpec> arrays_of(const Problem& problem) {
  std::vector<ArraySpec> arrays;
  const auto add = [&](Part part, const char* name, const char* descr, std::size_t item_bytes, std::int64_t items) {
    arrays.push_back({part, name, descr, item_bytes, items, part == Part::passes || part == Part::thresholds});
  };
  const auto add_elements = [&](Part part, const char* name, std::int64_t items) {
    add(part, name, npy_descr(problem.dtype), size_of(problem.dtype), items);
  };
  const auto add_indices = [&](const char* name) {
    add(Part::indices, name, npy_descr(problem.index_type), size_of(problem.index_type), problem.k);
  };
  switch (problem.form) {
    case Form::pairs:
      if (problem.values) add_elements(Part::values, "values", problem.k);
      if (problem.indices) add_indices("indices");
      break;
    case Form::cbsr:
      add_elements(Part::values, "values", problem.k);
      add_indices("selectors");
      break;
    case Form::dense: add_elements(Part::dense, "dense", problem.cols); break;
    case Form::mask: add(Part::mask, "mask", "|u1", 1, problem.cols); break;
  }
  if (problem.passes) add(Part::passes, "passes", "<i4", sizeof(std::int32_t), 1);
  if (problem.thresholds) add_elements(Part::thresholds, "thresholds", 1);
  return arrays;
}

std::string meta_text(const Problem& problem, const Provenance& provenance) {
  // Made as an object: turning null into an object by operator[] aborts the program if memory runs out.
  Json json = Json::object();
  json["program"] = "rtopk";
  json["version"] = version();
  json["rows"] = problem.rows;
  json["cols"] = problem.cols;
  json["k"] = problem.k;
  json["dtype"] = name(problem.dtype);
  json["direction"] = name(problem.direction);
  json["order"] = name(problem.order);
  json["form"] = name(problem.form);
  json["index_type"] = name(problem.index_type);
  json["values"] = problem.values;
  json["indices"] = problem.indices;
  json["passes"] = problem.passes;
  json["max_iter"] = problem.max_iter;
  json["rule"] = name(problem.rule);
  json["epsilon"] = problem.epsilon;
  json["search"] = name(problem.search);
  if (const std::string options = general_options(problem); !options.empty()) json["general_rows"] = options;
  if (provenance.random) {
    json["input"] = {{"random", name(provenance.random->distribution)}, {"seed", provenance.random->seed}};
  } else {
    json["input"] = {{"file", provenance.file}};
  }
  // `replace`, because a file name may not be UTF-8.
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

NpzArrays parse_saved(std::span<const std::byte> file) {
  constexpr auto names =
      std::to_array<std::string_view>({meta_name, "values", "indices", "selectors", "dense", "mask", "passes"});
  return parse_npz(file, names);
}

std::optional<Meta> read_meta(const NpzArrays& arrays) {
  const auto found = arrays.find(meta_name);
  if (found == arrays.end()) return std::nullopt;
  const NpzArray& array = found->second;
  if (array.header.kind != 'U' || !array.header.shape.empty() || array.header.byte_order == '>') {
    fail("its array 'meta' is not a text");
  }
  if (array.header.data_bytes > max_meta_bytes) {
    fail("its array 'meta' takes {} bytes; accepted: at most {}", array.header.data_bytes, max_meta_bytes);
  }
  check_sum(meta_name, array);
  std::string text;
  for (std::size_t i = 0; i + 4 <= array.data.size(); i += 4) {  // UTF-32; ours is ASCII
    std::uint32_t character = 0;
    std::memcpy(&character, array.data.data() + i, sizeof character);
    text += character == 0 ? ' ' : character < 0x80 ? static_cast<char>(character) : '\xff';
  }
  try {
    return meta_from(Json::parse(text));
  } catch (const Json::exception&) {
    fail("its array 'meta' is not a text that this program has written");
  }
}

Problem guess_problem(const NpzArrays& arrays, std::int64_t rows, std::int64_t cols, DType dtype) {
  Problem problem{.rows = rows, .cols = cols, .k = 0, .dtype = dtype};
  const auto has = [&](const char* name) { return arrays.contains(name); };
  problem.form = has("dense") ? Form::dense : has("mask") ? Form::mask : has("selectors") ? Form::cbsr : Form::pairs;
  problem.values = has("values");
  problem.indices = has("indices") || has("selectors");
  problem.passes = has("passes");
  if (problem.form == Form::pairs && !problem.values && !problem.indices) {
    fail("it has none of the arrays values, indices, selectors, dense, mask");
  }
  const char* const which = has("selectors") ? "selectors" : has("indices") ? "indices" : "values";
  const auto found = arrays.find(which);
  if (found != arrays.end() && !found->second.header.shape.empty()) problem.k = found->second.header.shape.back();
  if (problem.indices && found != arrays.end()) {
    for (const IndexType type : values_of<IndexType>()) {
      if (found->second.header.descr == npy_descr(type)) problem.index_type = type;
    }
  }
  return problem;
}

Results find_results(const NpzArrays& arrays, const Problem& problem, const std::vector<std::int64_t>& leading_shape) {
  Results results;
  for (const ArraySpec& spec : arrays_of(problem)) {
    const auto found = arrays.find(spec.name);
    if (found == arrays.end()) fail("it has no array '{}'", spec.name);
    const NpyHeader& header = found->second.header;
    const bool is_mask = spec.part == Part::mask && header.descr == "|b1";  // NumPy's own kind of mask
    const bool is_bf16 = problem.dtype == DType::bf16 && header.kind == 'V' && header.item_bytes == 2;
    if (header.descr != spec.descr && !is_mask && !is_bf16) {
      fail("its array '{}' has dtype '{}', not '{}'", spec.name, header.descr, spec.descr);
    }
    const std::vector<std::int64_t> shape = spec.shape(leading_shape);
    if (header.shape != shape) {
      fail("its array '{}' has shape {}, not {}", spec.name, shape_text(header.shape), shape_text(shape));
    }
    if (header.fortran_order && shape.size() > 1) fail("its array '{}' is in Fortran order", spec.name);
    check_sum(spec.name, found->second);
    const void* data = found->second.data.data();
    switch (spec.part) {
      case Part::values: results.values = data; break;
      case Part::indices: results.indices = data; break;
      case Part::dense: results.dense = data; break;
      case Part::mask: results.mask = data; break;
      case Part::passes: results.passes = data; break;
      case Part::thresholds: break;  // in a file of their own
    }
  }
  return results;
}

}  // namespace rtopk::tool
