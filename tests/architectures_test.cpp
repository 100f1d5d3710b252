// Which GPUs a build has code for.
#include <gtest/gtest.h>

#include <rtopk/rtopk.hpp>

#include "core/architectures.hpp"

namespace {

using rtopk::core::has_code_for;

TEST(Architectures, MachineCodeRunsOnItsOwnMajorVersion) {
  EXPECT_TRUE(has_code_for("80-real", 80));
  EXPECT_TRUE(has_code_for("80-real", 86));
  EXPECT_FALSE(has_code_for("86-real", 80));
  EXPECT_FALSE(has_code_for("80-real", 90));
  EXPECT_FALSE(has_code_for("90-real", 89));
  EXPECT_TRUE(has_code_for("70-real 90-real", 75));
  EXPECT_FALSE(has_code_for("70-real 90-real", 80));
}

TEST(Architectures, PtxRunsOnEveryLaterOne) {
  for (const int later : {90, 100, 120}) EXPECT_TRUE(has_code_for("90", later)) << later;
  for (const int later : {90, 100, 120}) EXPECT_TRUE(has_code_for("80-real 90-virtual", later)) << later;
  EXPECT_FALSE(has_code_for("90", 89));
  EXPECT_FALSE(has_code_for("90-virtual", 80));
}

TEST(Architectures, SomeCodeIsForOneGpuOrItsFamily) {
  EXPECT_TRUE(has_code_for("90a", 90));
  EXPECT_FALSE(has_code_for("90a-real", 100));
  EXPECT_FALSE(has_code_for("90a", 100));
  EXPECT_TRUE(has_code_for("100f", 103));
  EXPECT_FALSE(has_code_for("100f", 120));
}

TEST(Architectures, NamesThatSayNothingAreTried) {
  EXPECT_TRUE(has_code_for("native", 75));
  EXPECT_TRUE(has_code_for("", 75));
}

TEST(Architectures, TheBuildNamesThem) {
  const rtopk::BuildInfo info = rtopk::build_info();
  EXPECT_EQ(info.cuda, info.cuda_architectures[0] != '\0');
}

}  // namespace
