// The rows of a warp of cuda_tournament in shared memory, at any address. They lie there as they do in memory, copied
// as aligned vectors of 16 bytes: all rows of the tile as one stretch, or each in a slot if there are gaps between
// them.
#pragma once

#include <cstdint>

#include "cuda/runtime/async_copy.cuh"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/tournament/results.cuh"
#include "cuda/select/tournament/words.cuh"
#include "plan/select/tuning_tournament.hpp"

namespace rtopk::cuda {

/// With what depends on the number of columns and the stride alone: in a kernel, constants.
struct UnalignedTournamentArguments : SelectArguments {
  static constexpr bool kUneven = false;
  int lane_words;    ///< From one lane's first word to the next one's.
  int slot_vectors;  ///< Of a row, or 0 if the rows of a tile are one stretch.
  int row_bytes;   ///< From a row to the next one, in shared memory, but for the places of rows in their first vectors.
  int lead_bytes;  ///< From a row's place in its first vector to the next one's, modulo 16.
  int tile_bytes;  ///< Of a tile that is one stretch.
  int stage_bytes;
  int warp_bytes;

  template <class Config>
  static UnalignedTournamentArguments of(const SelectArguments& args, int most_k) {
    const bool one_stretch = Config::is_one_stretch(args.cols, args.stride);
    const auto cols = static_cast<int>(args.cols);
    const auto stride = static_cast<int>(args.stride % (1 << 16));  // of one stretch, all of it
    UnalignedTournamentArguments result{args};
    result.lane_words = Config::stride_words(cols);
    result.slot_vectors = one_stretch ? 0 : Config::slot_vectors(cols);
    result.row_bytes = one_stretch ? stride * Config::kBytes : 16 * result.slot_vectors;
    result.lead_bytes = one_stretch ? 0 : stride * Config::kBytes % 16;
    result.tile_bytes = ((Config::kRows - 1) * stride + cols) * Config::kBytes;
    result.stage_bytes = Config::stage_bytes(args.cols, args.stride);
    result.warp_bytes = Config::warp_bytes(most_k, args.cols, args.stride);
    return result;
  }
};

/// Copies rows to shared memory.
template <class T>
struct TournamentCopies {
  static constexpr int kBytes = static_cast<int>(sizeof(T));
  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }

  /// Vectors are copied whole, because what lies around a row is mostly other rows. Those that reach outside of the
  /// matrix, which is all of [first, last), are copied element by element. `slot_vectors`: of a row, or 0 if the rows
  /// are one stretch.
  static __device__ __noinline__ void fetch(int to, const char* from, std::int64_t pitch, int rows, int cols,
                                            int slot_vectors, const char* first, const char* last) {
    const bool one_stretch = slot_vectors == 0;
    const int stretches = one_stretch ? 1 : rows;
    const int length = one_stretch ? (rows - 1) * static_cast<int>(pitch) + cols * kBytes : cols * kBytes;
    const int vectors = one_stretch ? (length + 15) / 16 + 1 : slot_vectors;
    // A fixed-point reciprocal: exact if the vectors of a tile times those of a row are less than 2^20.
    const int over_vectors = one_stretch ? 0 : (1 << 20) / vectors + 1;
#pragma unroll 1
    for (int i = lane(); i < stretches * vectors; i += 32) {
      const int row = i * over_vectors >> 20;
      const char* begin = from + row * pitch;
      const auto lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(begin) % 16);
      const int vector = (i - row * vectors) * 16;
      if (vector >= lead + length) continue;
      const char* source = begin - lead + vector;
      char* target = tournament_memory() + to + i * 16;
      if (source >= first && source + 16 <= last) {
        copy_async_once<false>(static_cast<std::uint32_t>(__cvta_generic_to_shared(target)), source);
      } else {
#pragma unroll 1
        for (int j = 0; j < 16; j += kBytes) {
          if (source + j >= first && source + j < last) {
            *reinterpret_cast<T*>(target + j) = *reinterpret_cast<const T*>(source + j);
          }
        }
      }
    }
  }
};

/// Writes dense rows and masks.
template <class T, int kMasks, int K>
struct TournamentMatrix {
  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }

  /// The rows of a tile are one stretch in a dense matrix or a mask. It is prepared in shared memory, in the place of
  /// the elements. `place`: the lane's first element in that stretch.
  static __device__ __noinline__ void write(int elements_at, int stage_at, int place, unsigned first_marks,
                                            unsigned last_marks, char* out, int count, bool dense) {
    unsigned marks[kMasks];
    marks[kMasks - 1] = last_marks;
    marks[0] = first_marks;
    const T* mine = reinterpret_cast<const T*>(tournament_memory() + elements_at);
    int chosen[K];
    T values[K];
#pragma unroll
    for (int i = 0; i < K; ++i) {
      chosen[i] = -1;
      values[i] = T{};
      if (TournamentMarks<kMasks>::any(marks)) {
        const int number = TournamentMarks<kMasks>::take_first(marks);
        chosen[i] = place + number;
        if (dense) values[i] = mine[number];
      }
    }
    __syncwarp();  // before places change
    if (dense) {
      write_stretch<T>(stage_at, chosen, values, reinterpret_cast<T*>(out), count);
    } else {
      std::uint8_t ones[K];
#pragma unroll
      for (int i = 0; i < K; ++i) ones[i] = 1;
      write_stretch<std::uint8_t>(stage_at, chosen, ones, reinterpret_cast<std::uint8_t*>(out), count);
    }
  }

  /// Writes zeros, and this lane's values in the places that are chosen.
  template <class X>
  static __device__ void write_stretch(int stage_at, const int (&chosen)[K], const X (&values)[K], X* out, int count) {
    constexpr int kVector = 16 / static_cast<int>(sizeof(X));
    const auto lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(out) % 16 / sizeof(X));
    const int end = lead + count;
    X* stretch = reinterpret_cast<X*>(tournament_memory() + stage_at);
#pragma unroll 4
    for (int i = lane() * kVector; i < end; i += 32 * kVector) {
      *reinterpret_cast<uint4*>(stretch + i) = make_uint4(0, 0, 0, 0);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < K; ++i) {
      if (chosen[i] >= 0) stretch[lead + chosen[i]] = values[i];
    }
    __syncwarp();
    X* to = out - lead;
#pragma unroll 2
    for (int i = lane() * kVector; i < end; i += 32 * kVector) {
      if (i >= lead && i + kVector <= end) {
        *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(stretch + i);
      } else {
#pragma unroll 1
        for (int j = max(i, lead); j < min(i + kVector, end); ++j) to[j] = stretch[j];
      }
    }
  }
};

template <class T, int G, int R, int K>
struct UnalignedTournamentTile : TournamentWords<UnalignedTournamentArguments, T, G, R, K> {
  using Words = TournamentWords<UnalignedTournamentArguments, T, G, R, K>;
  using typename Words::Config;
  using Results = TournamentResults<T, G, R, K>;
  using Words::args;
  using Words::at;
  using Words::first_col;
  using Words::kBytes;
  using Words::kMasks;
  using Words::lane;
  using Words::warp_at;

  int stage;
  std::int64_t first_row;

  __device__ UnalignedTournamentTile(const UnalignedTournamentArguments& arguments, int number, std::int64_t row)
      : Words(arguments), stage(number), first_row(row) {
    // Lanes without a row look at the last one again.
    const int own_row = min(lane() / G, rows() - 1);
    Words::set_row(stage_at(args, stage) + place_of(own_row), cols());
  }

  __device__ int k() const { return static_cast<int>(args.k); }
  __device__ int cols() const { return static_cast<int>(args.cols); }
  __device__ int rows() const { return rows_from(args, first_row); }
  static __device__ int rows_from(const UnalignedTournamentArguments& args, std::int64_t row) {
    const std::int64_t left = args.rows - row;
    return left < Config::kRows ? static_cast<int>(left) : Config::kRows;
  }

  // Places in shared memory, in bytes from its beginning.

  static __device__ int stage_at(const UnalignedTournamentArguments& args, int stage) {
    return warp_at(args) + Config::stages_at(K) + stage * args.stage_bytes;
  }
  /// The place of a row in its stage.
  __device__ int place_of(int row) const {
    const std::uint32_t first = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(args.input)) +
                                static_cast<std::uint32_t>(first_row) * static_cast<std::uint32_t>(args.stride) *
                                    static_cast<std::uint32_t>(kBytes);
    return row * args.row_bytes + static_cast<int>((first + static_cast<std::uint32_t>(row * args.lead_bytes)) % 16);
  }

  // ------------------------------------------------------------------------------------------------------------------
  // From global memory.

  static __device__ void fetch(const UnalignedTournamentArguments& args, int stage, std::int64_t row) {
    constexpr int kRows = Config::kRows;
    const char* from = static_cast<const char*>(args.input) + row * args.stride * kBytes;
    // With a whole tile before it and another behind it, no vector of this one reaches outside of the matrix.
    if (args.slot_vectors == 0 && row > 0 && row + 2 * kRows <= args.rows) {
      const auto lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) % 16);
      const int end = lead + args.tile_bytes - lane() * 16;
      // Once for all copies, not again for each.
      const auto to = opaque(static_cast<std::uint32_t>(
          __cvta_generic_to_shared(tournament_memory() + stage_at(args, stage) + lane() * 16)));
      const char* mine = opaque(from + (lane() * 16 - lead));
#pragma unroll
      for (int i = 0; i < Config::kCopies; ++i) {
        if (i * 512 < end) copy_async_once<false>(to + static_cast<std::uint32_t>(i * 512), mine + i * 512);
      }
    } else {
      const auto* first = static_cast<const char*>(args.input);
      TournamentCopies<T>::fetch(stage_at(args, stage), from, args.stride * kBytes, rows_from(args, row),
                                 static_cast<int>(args.cols), args.slot_vectors, first,
                                 first + ((args.rows - 1) * args.stride + args.cols) * kBytes);
    }
  }

  // ------------------------------------------------------------------------------------------------------------------
  // To global memory.

  /// Writes the elements marked in their lanes, the first element's mark in the highest bit. `before`: marked elements
  /// of the row in lower lanes.
  __device__ void write(const unsigned (&marks)[kMasks], int before) const {
    if (args.passes != nullptr && lane() < rows()) args.passes[first_row + lane()] = 1;
    if (args.form == Form::dense || args.form == Form::mask) {
      const bool dense = args.form == Form::dense;
      char* out = dense ? static_cast<char*>(args.dense) : reinterpret_cast<char*>(args.mask);
      const bool exists = lane() / G < rows();
      return TournamentMatrix<T, kMasks, K>::write(
          at, stage_at(args, stage), lane() / G * cols() + first_col, exists ? marks[0] : 0u,
          exists ? marks[kMasks - 1] : 0u, out + first_row * args.cols * (dense ? kBytes : 1), rows() * cols(), dense);
    }
    Results::write(args, first_row, rows(), at, warp_at(args) + Config::kListsAt, first_col, marks, before);
  }
};

}  // namespace rtopk::cuda
