// Approximate scores by the functions of the hardware: a few instructions each.
#pragma once

namespace rtopk::cuda {

// The intrinsic functions would take care of subnormal numbers, which do not matter here, and take twice as many
// instructions.
[[nodiscard]] __device__ inline float approximate_power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
[[nodiscard]] __device__ inline float approximate_inverse(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
[[nodiscard]] __device__ inline float approximate_root(float x) {
  float result;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
/// The lesser of both, or NaN if one is.
[[nodiscard]] __device__ inline float least_or_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

inline constexpr float kMinusLog2E = -0x1.715476p0f;

/// 1 / (1 + exp(-x)), with an error of less than 2^-22.
[[nodiscard]] __device__ inline float approximate_sigmoid(float x) {
  return approximate_inverse(1.0f + approximate_power_of_two(x * kMinusLog2E));
}

/// sqrt(log(1 + exp(x))), with a relative error of less than 2^-19. The steps are those of core::sqrt_of_softplus:
/// small scores keep their precision.
[[nodiscard]] __device__ inline float approximate_sqrt_of_softplus(float x) {
  const float a = approximate_power_of_two(fabsf(x) * kMinusLog2E);
  const float s = a * approximate_inverse(2.0f + a);
  const float z = s * s;
  float tail = fmaf(z, 0x1.f1b2c6p-3f, 0x1.b6d5b0p-3f);
  tail = fmaf(z, tail, 0x1.25097cp-2f);
  tail = fmaf(z, tail, 0x1.9996a8p-2f);
  tail = fmaf(z, tail, 0x1.555558p-1f);
  return approximate_root(fmaf(s, fmaf(z, tail, 2.0f), fmaxf(x, 0.0f)));
}

}  // namespace rtopk::cuda
