// What the CUDA backend promises beyond the results that the conformance suite checks.
#include <gtest/gtest.h>
