#include "system/machine.hpp"

#include <cerrno>
#include <ctime>
#include <fstream>
#include <map>
#include <new>

#include <fmt/format.h>

namespace rtopk::tool {
namespace {

/// Opens a file that may not exist. Throws if memory runs out, which a stream alone would treat as the end of the file.
std::ifstream open_file(const char* path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file && errno == ENOMEM) throw std::bad_alloc();
  file.exceptions(std::ios::badbit);
  return file;
}

}  // namespace

std::string cpu_model() {
  std::map<std::string, std::string> fields;
  std::ifstream file = open_file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string key = line.substr(0, colon);
    key.erase(key.find_last_not_of(" \t") + 1);
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    fields.emplace(key, begin == std::string::npos ? "" : line.substr(begin));
  }
  if (const auto found = fields.find("model name"); found != fields.end()) return found->second;
  // ARM kernels give numbers instead of a name.
  if (fields.contains("CPU implementer")) {
    return fmt::format("ARM implementer {} part {} variant {}", fields["CPU implementer"], fields["CPU part"],
                       fields["CPU variant"]);
  }
  return "unknown";
}

std::string command_line() {
  std::ifstream file = open_file("/proc/self/cmdline");
  std::string text = "rtopk";
  std::string word;
  std::getline(file, word, '\0');  // the program
  while (std::getline(file, word, '\0')) text += ' ' + word;
  return text;
}

std::string date_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (::gmtime_r(&now, &parts) == nullptr) return "unknown";
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace rtopk::tool
