// Approximate scores by the functions of the hardware: a few instructions each.
#pragma once

namespace rtopk::cuda {

/// 1 / (1 + exp(-x)), with an error of less than 2^-22. The intrinsic functions would take care of subnormal numbers,
/// which do not matter here, and take twice as many instructions.
[[nodiscard]] __device__ inline float approximate_sigmoid(float x) {
  constexpr float kMinusLog2E = -0x1.715476p0f;
  float power;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * kMinusLog2E));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return result;
}

}  // namespace rtopk::cuda
