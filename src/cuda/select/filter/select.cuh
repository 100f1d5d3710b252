// cuda_filter: rows of any length, small k, one warp for each row.
//
// A warp streams its rows through shared memory. It lists the elements that reach the filter threshold, a few more than
// k, with their columns: the candidates. Then it searches the kth value among the candidates only. The filter threshold
// is learnt from the rows before. If the list is full, only the k largest so far are kept (16 if k is less), which
// raises the filter threshold. If fewer than k elements reach it, the row is read again. So what was learnt changes the
// speed of a row, never its result.
#pragma once

#include "cuda/select/filter/list.cuh"
#include "cuda/select/filter/stream.cuh"

namespace rtopk::cuda {

template <class T, bool kShort>
class FilterSelect {
 public:
  using Config = FilterConfig<T>;
  using Line = FilterLine<T>;
  using List = FilterList<T, kShort>;
  using Warp = LaneGroup<32>;
  static constexpr int kWords = Config::kWords;

  __device__ FilterSelect(const SelectArguments& args, const SelectArguments& copy, char* shared, std::int64_t begin,
                          std::int64_t end)
      : args_(args), copy_(copy), row_(begin), stream_(args, shared, begin, end) {
    capacity_ = static_cast<int>(Config::capacity(args.k));
  }

  __device__ void run() {
    if (row_ >= stream_.end()) return;
    filter_threshold_ = List::begin(copy_, list_at(), row_, capacity_);
#pragma unroll 1
    while (row_ < stream_.end()) {
      read();
      const typename List::End end = List::end(copy_, list_at(), row_, number_, row_ + 1 < stream_.end());
      filter_threshold_ = end.filter_threshold;
      if (end.done) {
        ++row_;
      } else {
        stream_.restart(row_);
      }
    }
  }

 private:
  /// Lists the candidates of the row.
  __device__ void read() {
    number_ = 0;
    const int lead = stream_.lead(row_);
    // Columns of a line are counted from the beginning of the row in its first piece.
    int column = Warp::lane() * Config::kLine - lead;
    int left = static_cast<int>(args_.cols) + lead;  // elements from this piece to the end of the row
    bool is_end = lead > 0;
#pragma unroll 1
    do {
      stream_.advance();
      unsigned open[kWords];
#pragma unroll
      for (int word = 0; word < kWords; ++word) open[word] = ~0u;
      if (is_end || left < Config::kPiece) close_ends(open, column, left);
      filter(open, column);
      is_end = false;
      column += Config::kPiece;
      left -= Config::kPiece;
    } while (left > 0);
  }

  /// Clears the bits of elements outside the row.
  static __device__ void close_ends(unsigned (&open)[kWords], int column, int left) {
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      const int before = min(max(-column - 32 * word, 0), 32);
      const int behind = min(max(left - Warp::lane() * Config::kLine - 32 * word, 0), 32);
      const unsigned from = before == 32 ? 0u : ~0u << before;
      const unsigned to = behind == 32 ? ~0u : (1u << behind) - 1u;
      open[word] &= from & to;
    }
  }

  /// Lists the candidates of a piece, from the elements in `open`.
  __device__ void filter(unsigned (&open)[kWords], int column) {
    // Invariant: the list holds every element before `open` that can still be selected, in index order.
#pragma unroll 1
    while (true) {
      unsigned marks[kWords];
      if (filter_threshold_.way == FilterThreshold<T>::Way::raw) {
        Line line;
        stream_.load(line);
        filter_threshold_.mark(line, args_.smallest, marks);
      } else {
        mark_by_key(marks);
      }
      int mine = 0;
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        marks[word] &= open[word];
        mine += __popc(marks[word]);
      }
      if (!__any_sync(kFullWarp, mine != 0)) return;
      const int behind = static_cast<int>(Warp::inclusive_sum(static_cast<unsigned>(mine)));
      const int total = Warp::from_lane(behind, 31);
      const bool fits = number_ + total < capacity_;
      if (fits && __any_sync(kFullWarp, mine >= kMany)) {
        list_many(marks, number_ + behind - mine, column);
      } else {
        list_few(marks, open, number_ + behind - 1, column, fits);
      }
      __syncwarp();
      const int before = number_;
      const int k = static_cast<int>(args_.k);
      number_ = min(number_ + total, capacity_);
      if (fits) {
        // Enough elements reach the filter threshold. Later ones that only equal it cannot be selected any more.
        if (before < k && number_ >= k)
          filter_threshold_ = FilterThreshold<T>::above(filter_threshold_.key, args_.smallest);
        return;
      }
      filter_threshold_ = List::prune(copy_, list_at(), row_);
      number_ = List::learnt_rank(k);
    }
  }

  __device__ void mark_by_key(unsigned (&marks)[kWords]) const {
    const std::uint32_t line = stream_.line_at();
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      marks[word] = 0;
      if (filter_threshold_.way == FilterThreshold<T>::Way::closed) continue;
#pragma unroll 1
      for (int j = 0; j < min(32, Config::kLine); ++j) {
        const T element = FilterStream<T>::element(line, 32 * word + j);
        if (FilterKey<T>::of(element, args_.smallest) >= filter_threshold_.key) marks[word] |= 1u << j;
      }
    }
  }

  __device__ char* list_at() const { return stream_.ring() + Config::kStages * Config::kPieceBytes; }
  // Shared addresses of a candidate's element and column.
  __device__ std::uint32_t element_at(int position) const {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(List(args_, list_at()).elements() + position));
  }
  __device__ std::uint32_t column_at(int position) const {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(List(args_, list_at()).columns(capacity_) + position));
  }

  /// Lists the marked elements of this lane, the last one at `last`, as far as there is room; the others stay in
  /// `open`.
  __device__ void list_few(unsigned (&marks)[kWords], unsigned (&open)[kWords], int last, int column, bool fits) {
    const std::uint32_t line = stream_.line_at();
    std::uint32_t element_at = this->element_at(last);
    std::uint32_t column_at = this->column_at(last);
#pragma unroll
    for (int word = kWords - 1; word >= 0; --word) {
      open[word] = 0;
      if (!fits) {
        // The first ones find room.
        const int more = min(max(last + 1 - capacity_, 0), __popc(marks[word]));
        last -= __popc(marks[word]);
#pragma unroll 1
        for (int i = 0; i < more; ++i) {
          const unsigned bit = 0x80000000u >> __clz(static_cast<int>(marks[word]));
          marks[word] ^= bit;
          open[word] |= bit;
        }
        element_at -= static_cast<std::uint32_t>(more) * sizeof(T);
        column_at -= static_cast<std::uint32_t>(more) * 4;
      }
      // From last to first: the highest bit is found in one step.
#pragma unroll 1
      while (marks[word] != 0) {
        const int j = 31 - __clz(static_cast<int>(marks[word]));
        marks[word] ^= 1u << j;
        FilterStream<T>::copy_element(element_at, line, 32 * word + j);
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(column_at), "r"(column + 32 * word + j) : "memory");
        element_at -= sizeof(T);
        column_at -= 4;
      }
    }
  }

  /// Lists the marked elements of this lane from `first` on. If many are marked, it is faster to go through all
  /// elements.
  __device__ void list_many(const unsigned (&marks)[kWords], int first, int column) {
    std::uint32_t element_at = this->element_at(first);
    std::uint32_t column_at = this->column_at(first);
    asm volatile("" ::: "memory");  // reloading the elements costs less than keeping them in registers
    Line line;
    stream_.load(line);
#pragma unroll
    for (int j = 0; j < Config::kLine; ++j) {
      push_if(marks[j / 32] & 1u << (j % 32), element_at, column_at, line.raw(j), column + j);
    }
  }

  static __device__ void push_if(unsigned bit, std::uint32_t& element_at, std::uint32_t& column_at, T element,
                                 int column) {
    const auto bits = core::bits_of(element);
    if constexpr (sizeof(T) == 8) {
      asm volatile(
          "{ .reg .pred p; setp.ne.u32 p, %2, 0; @p st.shared.u64 [%0], %3; @p st.shared.u32 [%1], %4;"
          " @p add.u32 %0, %0, 8; @p add.u32 %1, %1, 4; }"
          : "+r"(element_at), "+r"(column_at)
          : "r"(bit), "l"(bits), "r"(column)
          : "memory");
    } else if constexpr (sizeof(T) == 4) {
      asm volatile(
          "{ .reg .pred p; setp.ne.u32 p, %2, 0; @p st.shared.u32 [%0], %3; @p st.shared.u32 [%1], %4;"
          " @p add.u32 %0, %0, 4; @p add.u32 %1, %1, 4; }"
          : "+r"(element_at), "+r"(column_at)
          : "r"(bit), "r"(bits), "r"(column)
          : "memory");
    } else {
      asm volatile(
          "{ .reg .pred p; setp.ne.u32 p, %2, 0; @p st.shared.u16 [%0], %3; @p st.shared.u32 [%1], %4;"
          " @p add.u32 %0, %0, 2; @p add.u32 %1, %1, 4; }"
          : "+r"(element_at), "+r"(column_at)
          : "r"(bit), "h"(bits), "r"(column)
          : "memory");
    }
  }

  static constexpr int kMany = Config::kLine * 3 / 8;  ///< With this many marks in a line, list_many is faster.

  const SelectArguments& args_;
  /// In shared memory, for functions that are not inlined: to them `args_` is not a constant.
  const SelectArguments& copy_;
  std::int64_t row_;
  FilterStream<T> stream_;
  int capacity_;
  int number_ = 0;
  FilterThreshold<T> filter_threshold_;
};

template <class T, bool kShort>
__global__ void __launch_bounds__(32 * kFilterWarpsPerBlock,
                                  (kShort ? FilterConfig<T>::kBlocksOfShortLists : FilterConfig<T>::kBlocksOfLongLists))
    filter_kernel(const __grid_constant__ SelectArguments args) {
  extern __shared__ __align__(128) char shared[];
  using Config = FilterConfig<T>;
  static_assert(sizeof(SelectArguments) <= Config::kArgumentBytes && sizeof(SelectArguments) % 4 == 0 &&
                std::is_trivially_copyable_v<SelectArguments>);
  for (unsigned i = threadIdx.x; i < sizeof(SelectArguments) / 4; i += blockDim.x) {
    reinterpret_cast<std::uint32_t*>(shared)[i] = reinterpret_cast<const std::uint32_t*>(&args)[i];
  }
  __syncthreads();
  const SelectArguments& copy = *reinterpret_cast<const SelectArguments*>(shared);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int warps = static_cast<int>(blockDim.x / 32);
  const std::int64_t all = static_cast<std::int64_t>(gridDim.x) * warps;
  const std::int64_t mine = static_cast<std::int64_t>(blockIdx.x) * warps + warp;
  const std::int64_t each = args.rows / all;
  const std::int64_t more = args.rows % all;  // this many warps have one row more
  const std::int64_t begin = mine * each + min(mine, more);
  const std::int64_t end = begin + each + (mine < more ? 1 : 0);
  char* mine_at = shared + Config::kArgumentBytes + warp * Config::warp_bytes(args.k);
  FilterSelect<T, kShort>(args, copy, mine_at, begin, end).run();
}

}  // namespace rtopk::cuda
