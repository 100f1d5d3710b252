/* The three largest elements of every row, best first, from C. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <rtopk/rtopk.h>

enum { ROWS = 2, COLS = 6, K = 3 };

static const float matrix[ROWS][COLS] = {
    {0.1f, 2.5f, -1.0f, 2.5f, 0.7f, 9.0f},
    {-4.0f, -2.0f, -8.0f, -1.0f, -1.0f, -16.0f},
};

int main(void) {
  rtopk_problem problem;
  rtopk_problem_init(&problem);
  problem.rows = ROWS;
  problem.cols = COLS;
  problem.k = K;
  problem.order = RTOPK_BY_VALUE;

  rtopk_plan plan;
  rtopk_status status = rtopk_make_plan(&problem, &plan);
  if (status.code != RTOPK_OK) {
    fprintf(stderr, "rtopk: %s\n", status.text);
    return EXIT_FAILURE;
  }

  const size_t workspace_bytes = rtopk_workspace_bytes(&plan);
  void* workspace = malloc(workspace_bytes > 0 ? workspace_bytes : 1);
  if (workspace == NULL) return EXIT_FAILURE;

  float values[ROWS][K];
  int64_t indices[ROWS][K];
  const rtopk_output output = {.values = values, .indices = indices};
  status = rtopk_run(&plan, matrix, &output, workspace, workspace_bytes, NULL);
  free(workspace);
  if (status.code != RTOPK_OK) {
    fprintf(stderr, "rtopk: %s\n", status.text);
    return EXIT_FAILURE;
  }

  for (int row = 0; row < ROWS; ++row) {
    printf("row %d:", row);
    for (int i = 0; i < K; ++i) printf("  %g at %" PRId64, (double)values[row][i], indices[row][i]);
    printf("\n");
  }

  /* Equal values: the lower index comes first. */
  const int64_t expected[ROWS][K] = {{5, 1, 3}, {3, 4, 1}};
  for (int row = 0; row < ROWS; ++row) {
    for (int i = 0; i < K; ++i) {
      if (indices[row][i] != expected[row][i]) return EXIT_FAILURE;
    }
  }
  return EXIT_SUCCESS;
}
