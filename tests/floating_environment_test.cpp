// Frameworks disable subnormals per thread, and programs change the rounding mode. Neither may change a result, and a
// call must restore both.
#include <gtest/gtest.h>

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

#include "check.hpp"
#include "conformance.hpp"
#include "executors.hpp"

namespace rtopk_test {
namespace {

#if defined(__x86_64__) || defined(__i386__)
using ControlWord = std::uint32_t;
constexpr ControlWord kNoSubnormals = 0x8040;  // MXCSR: flush to zero, denormals are zero
ControlWord control() { return _mm_getcsr() & ~0x3fu; }
void set_control(ControlWord word) { _mm_setcsr(word); }
#elif defined(__aarch64__)
using ControlWord = std::uint64_t;
constexpr ControlWord kNoSubnormals = 0x01000000;  // FPCR.FZ
ControlWord control() {
  ControlWord word = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
void set_control(ControlWord word) { __asm__ volatile("msr fpcr, %0" : : "r"(word)); }
#else
#define RTOPK_TEST_NO_CONTROL_WORD 1
using ControlWord = std::uint32_t;
constexpr ControlWord kNoSubnormals = 0;
ControlWord control() { return 0; }
void set_control(ControlWord) {}
#endif

class WithoutSubnormals {
 public:
  WithoutSubnormals() : saved_(control()) { set_control(saved_ | kNoSubnormals); }
  ~WithoutSubnormals() { set_control(saved_); }
  WithoutSubnormals(const WithoutSubnormals&) = delete;
  WithoutSubnormals& operator=(const WithoutSubnormals&) = delete;

 private:
  ControlWord saved_;
};

class WithRounding {
 public:
  explicit WithRounding(int mode) : saved_(std::fegetround()) { std::fesetround(mode); }
  ~WithRounding() { std::fesetround(saved_); }
  WithRounding(const WithRounding&) = delete;
  WithRounding& operator=(const WithRounding&) = delete;

 private:
  int saved_;
};

/// True if the mode has an effect on this machine; otherwise the tests would prove nothing.
bool subnormals_are_lost() {
  volatile float tiny = 1e-40f;
  volatile float half = 0.5f;
  volatile float product = tiny * half;
  return product == 0.0f;
}

/// Rows whose selection depends on subnormals or on the rounding of midpoints.
struct Sensitive {
  rtopk::Problem problem;
  Matrix matrix;
  std::vector<RowSelection> selections;
};

std::vector<Sensitive> sensitive_cases() {
  Random random(seed() + 40);
  std::vector<Sensitive> cases;
  for (const rtopk::DType dtype : kDTypes) {
    for (const Pattern pattern : {Pattern::denormals, Pattern::neighbours, Pattern::normal, Pattern::random_bits}) {
      for (const std::int64_t cols : {30, 700, 9000}) {
        for (const Limits& limits : kLimits) {
          if (cols > 1000 && limits.max_iter > 100) continue;
          for (const rtopk::Direction direction : kDirections) {
            if (left_out(random)) continue;
            const std::int64_t k = random_k(cols, random);
            Sensitive made{{}, make_matrix(dtype, 2, cols, k, pattern, random), {}};
            made.problem = problem_for(made.matrix, k);
            made.problem.direction = direction;
            made.problem.passes = true;
            limits.apply(made.problem);
            random.pick(shapes_for(cols)).apply(made.problem);
            made.selections = select(made.problem, made.matrix.bytes.data());
            cases.push_back(std::move(made));
          }
        }
      }
    }
  }
  return cases;
}

const std::vector<Sensitive>& cases() {
  static const std::vector<Sensitive> all = sensitive_cases();
  return all;
}

template <typename Environment>
void expect_unmoved(Environment make_environment, const Layout& layout) {
  for (const Sensitive& one : cases()) {
    for (const Runner* runner : host_runners()) {
      runner->activate();
      std::string wrong;
      ControlWord before = 0;
      ControlWord after = 0;
      int rounding_before = 0;
      int rounding_after = 0;
      {
        [[maybe_unused]] const auto environment = make_environment();
        before = control();
        rounding_before = std::fegetround();
        wrong = check(*runner, one.problem, one.matrix, one.selections, layout);
        after = control();
        rounding_after = std::fegetround();
      }
      ASSERT_EQ(wrong, "");
      ASSERT_EQ(before, after) << "the call left another floating-point environment: " << runner->name();
      ASSERT_EQ(rounding_before, rounding_after);
    }
  }
}

TEST(FloatingEnvironment, SubnormalsSwitchedOff) {
#if defined(RTOPK_TEST_NO_CONTROL_WORD)
  GTEST_SKIP() << "this architecture's control word is not known here";
#endif
  {
    const WithoutSubnormals off;
    ASSERT_TRUE(subnormals_are_lost());
  }
  ASSERT_FALSE(subnormals_are_lost());
  Layout layout;
  for (const std::int32_t threads : {1, 3}) {
    layout.threads = threads;
    expect_unmoved([] { return WithoutSubnormals(); }, layout);
  }
}

TEST(FloatingEnvironment, OtherRounding) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO})
    expect_unmoved([mode] { return WithRounding(mode); }, {});
}

TEST(FloatingEnvironment, OfAnExecutorsThreads) {
  ThreadPerTask threads([] {
    set_control(control() | kNoSubnormals);
    std::fesetround(FE_UPWARD);
  });
  const rtopk::Executor executor = threads.executor();
  Layout layout;
  layout.threads = 2;
  layout.executor = &executor;
  expect_unmoved([] { return 0; }, layout);
}

TEST(FloatingEnvironment, RaisesNoFlags) {
  Random random(seed() + 41);
  const Matrix matrix = make_mixed_matrix(rtopk::DType::f32, kPatterns, 500, 20, random);
  for (const Runner* runner : host_runners()) {
    runner->activate();
    for (const Limits& limits : kLimits) {
      rtopk::Problem problem = problem_for(matrix, 20);
      limits.apply(problem);
      const auto selections = select(problem, matrix.bytes.data());
      std::feclearexcept(FE_ALL_EXCEPT);
      const std::string wrong = check(*runner, problem, matrix, selections, {});
      const int raised = std::fetestexcept(FE_ALL_EXCEPT);
      ASSERT_EQ(wrong, "");
      ASSERT_EQ(raised, 0) << runner->name();
    }
  }
}

}  // namespace
}  // namespace rtopk_test
