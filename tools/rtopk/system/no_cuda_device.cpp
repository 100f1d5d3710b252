// Replaces cuda_device.cpp in a build without CUDA. The library refuses a GPU before any of these functions is called.
#include "system/cuda_device.hpp"
#include "terminal/failure.hpp"

namespace rtopk::tool::gpu {
namespace {

[[noreturn]] void refuse() { fail("this build has no CUDA backend; accepted for --device: cpu"); }

}  // namespace

Info info(int) { refuse(); }
void use(int) { refuse(); }
std::uint64_t free_memory() { refuse(); }
OwnedBytes device_bytes(std::size_t) { refuse(); }
OwnedBytes pinned_bytes(std::size_t) { refuse(); }

Stream::Stream() { refuse(); }
Stream::~Stream() = default;
void Stream::copy(void*, const void*, std::size_t) { refuse(); }
void Stream::fill(void*, int, std::size_t) { refuse(); }
void Stream::wait() { refuse(); }

Event::Event() { refuse(); }
Event::~Event() = default;
void Event::record(const Stream&) { refuse(); }
void Event::wait() { refuse(); }
double Event::seconds_since(const Event&) const { refuse(); }

}  // namespace rtopk::tool::gpu
