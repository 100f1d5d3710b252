#include "saved_selection.hpp"

#include <nlohmann/json.hpp>

#include "failure.hpp"
#include "matrix_source.hpp"
#include "names.hpp"
#include "text.hpp"

namespace rtopk::tool {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
T known(std::optional<T> value, const char* key) {
  if (!value) fail("its meta text has a value of '{}' that is not known here", key);
  return *value;
}

Meta meta_from(const Json& json) {
  const auto text = [&](const char* key) { return json.at(key).get<std::string>(); };
  Meta meta;
  Problem& problem = meta.problem;
  problem.rows = json.at("rows").get<std::int64_t>();
  problem.cols = json.at("cols").get<std::int64_t>();
  problem.k = json.at("k").get<std::int64_t>();
  problem.dtype = known(value_named<DType>(text("dtype")), "dtype");
  problem.direction = known(value_named<Direction>(text("direction")), "direction");
  problem.order = known(value_named<Order>(text("order")), "order");
  problem.form = known(value_named<Form>(text("form")), "form");
  problem.index_type = known(value_named<IndexType>(text("index_type")), "index_type");
  problem.values = json.at("values").get<bool>();
  problem.indices = json.at("indices").get<bool>();
  problem.passes = json.at("passes").get<bool>();
  problem.max_iter = json.at("max_iter").get<std::int32_t>();
  problem.epsilon = json.at("epsilon").get<double>();
  problem.search = known(value_named<Search>(text("search")), "search");
  const Json& input = json.at("input");
  if (input.contains("file")) {
    meta.provenance.file = input.at("file").get<std::string>();
  } else {
    meta.provenance.random =
        RandomInput{.rows = problem.rows,
                    .cols = problem.cols,
                    .distribution = known(value_named<Distribution>(input.at("random").get<std::string>()), "random"),
                    .seed = input.at("seed").get<std::uint64_t>()};
  }
  return meta;
}

}  // namespace

std::vector<std::int64_t> ArraySpec::shape(const std::vector<std::int64_t>& leading) const {
  std::vector<std::int64_t> result = leading;
  if (!one_per_row) result.push_back(items_per_row);
  return result;
}

std::vector<ArraySpec> arrays_of(const Problem& problem) {
  const bool cbsr = problem.form == Form::cbsr;
  const bool pairs = problem.form == Form::pairs;
  std::vector<ArraySpec> arrays;
  const auto add = [&](Part part, const char* name, const char* descr, std::size_t item_bytes, std::int64_t items) {
    arrays.push_back({part, name, descr, item_bytes, items, part == Part::passes});
  };
  if (cbsr || (pairs && problem.values)) {
    add(Part::values, "values", npy_descr(problem.dtype), size_of(problem.dtype), problem.k);
  }
  if (cbsr || (pairs && problem.indices)) {
    add(Part::indices, cbsr ? "selectors" : "indices", npy_descr(problem.index_type), size_of(problem.index_type),
        problem.k);
  }
  if (problem.form == Form::dense) {
    add(Part::dense, "dense", npy_descr(problem.dtype), size_of(problem.dtype), problem.cols);
  }
  if (problem.form == Form::mask) add(Part::mask, "mask", "|u1", 1, problem.cols);
  if (problem.passes) add(Part::passes, "passes", "<i4", sizeof(std::int32_t), 1);
  return arrays;
}

std::string meta_text(const Problem& problem, const Provenance& provenance) {
  Json json;
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
  json["epsilon"] = problem.epsilon;
  json["search"] = name(problem.search);
  if (provenance.random) {
    json["input"] = {{"random", name(provenance.random->distribution)}, {"seed", provenance.random->seed}};
  } else {
    json["input"] = {{"file", provenance.file}};
  }
  // A file name need not be UTF-8.
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::optional<Meta> read_meta(const NpzArrays& arrays) {
  const auto found = arrays.find(meta_name);
  if (found == arrays.end()) return std::nullopt;
  const NpzArray& array = found->second;
  if (array.header.kind != 'U' || !array.header.shape.empty() || array.header.byte_order == '>') {
    fail("its array 'meta' is not a text");
  }
  std::string text;
  for (std::size_t i = 0; i + 4 <= array.data.size(); i += 4) {  // UTF-32; ours is ASCII
    text += std::to_integer<int>(array.data[i]) == 0 ? ' ' : static_cast<char>(array.data[i]);
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
    for (const IndexType type : values_of<IndexType>) {
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
    const void* data = found->second.data.data();
    switch (spec.part) {
      case Part::values: results.values = data; break;
      case Part::indices: results.indices = data; break;
      case Part::dense: results.dense = data; break;
      case Part::mask: results.mask = data; break;
      case Part::passes: results.passes = data; break;
    }
  }
  return results;
}

}  // namespace rtopk::tool
