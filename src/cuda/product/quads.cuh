// Loads, stores and products of quads: four neighbouring columns of a matrix.
#pragma once

#include <cstdint>

#include "cuda/runtime/async_copy.cuh"

namespace rtopk::cuda {

/// Columns [col, col + 4) of a tile's row, of which `width` exist; zeros past them. `at_once`: rows begin and end at
/// multiples of 16 bytes.
__device__ inline float4 load_quad(const float* row, int col, int width, bool at_once) {
  float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (at_once) {
    if (col < width) quad = *reinterpret_cast<const float4*>(row + col);
    return quad;
  }
  if (col + 0 < width) quad.x = row[col];
  if (col + 1 < width) quad.y = row[col + 1];
  if (col + 2 < width) quad.z = row[col + 2];
  if (col + 3 < width) quad.w = row[col + 3];
  return quad;
}

__device__ inline void store_quad(float* row, int col, int width, bool at_once, const float4& quad) {
  if (at_once) {
    if (col < width) *reinterpret_cast<float4*>(row + col) = quad;
    return;
  }
  if (col + 0 < width) row[col] = quad.x;
  if (col + 1 < width) row[col + 1] = quad.y;
  if (col + 2 < width) row[col + 2] = quad.z;
  if (col + 3 < width) row[col + 3] = quad.w;
}

/// The same from global to shared memory. Leaves the destination past the end unchanged.
__device__ inline void copy_quad(float* to, const float* row, int col, int width, bool at_once) {
  if (at_once) {
    if (col < width) copy_async<16>(to, row + col);
    return;
  }
  for (int i = 0; i < 4 && col + i < width; ++i) copy_async<4>(to + i, row + col + i);
}

__device__ inline void add_multiple(float4& sum, float factor, const float4& quad) {
  sum.x = fmaf(factor, quad.x, sum.x);
  sum.y = fmaf(factor, quad.y, sum.y);
  sum.z = fmaf(factor, quad.z, sum.z);
  sum.w = fmaf(factor, quad.w, sum.w);
}

__device__ inline float add_dot(float sum, const float4& a, const float4& b) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

}  // namespace rtopk::cuda
