// Fuzzes the .npy header parser: bytes are parsed or rejected with one line of text. A parsed header must be
// consistent.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include <files/npy.hpp>

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void parse(std::span<const std::byte> file) {
  using namespace rtopk::tool;
  NpyHeader header;
  try {
    header = parse_npy_header(file);
  } catch (const NpyError& error) {
    const std::string text = error.what();
    require(!text.empty() && text.find('\n') == std::string::npos);
    return;
  }
  require(header.data_offset <= file.size());
  require(header.data_bytes <= (std::uint64_t{1} << 63) - 1);
  std::uint64_t elements = 1;
  for (const std::int64_t extent : header.shape) {
    require(extent >= 0);
    elements *= static_cast<std::uint64_t>(extent);
  }
  require(header.elements == elements);
  require(header.data_bytes == header.elements * header.item_bytes);
  try {
    const auto data = npy_data(header, file);
    require(data.size() == header.data_bytes);
    require(data.empty() || (data.data() >= file.data() + header.data_offset &&
                             data.data() + data.size() <= file.data() + file.size()));
  } catch (const NpyError&) {
    require(header.data_bytes > file.size() - header.data_offset);
  }
  if (header.fortran_order) return;
  // Writing and reading again must give the same header.
  const std::string again = format_npy_header(header.descr, header.shape);
  require(again.size() % 64 == 0);
  const NpyHeader twice = parse_npy_header(std::as_bytes(std::span(again)));
  require(twice.descr == header.descr && twice.shape == header.shape && twice.item_bytes == header.item_bytes &&
          twice.elements == header.elements && !twice.fortran_order);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parse(std::as_bytes(std::span(data, size)));
  return 0;
}
