/* A plugin that uses rtopk with several threads. */
#include <stdio.h>
#include <stdlib.h>

#include <rtopk/rtopk.h>

enum { ROWS = 2000, COLS = 256, K = 4, THREADS = 4 };

/* 0 if the last columns of every row, which have the largest elements, are selected. */
int select_rows(void) {
  float* matrix = malloc(sizeof(float) * ROWS * COLS);
  int64_t* indices = malloc(sizeof(int64_t) * ROWS * K);
  for (int i = 0; i < ROWS * COLS; ++i) matrix[i] = (float)(i % COLS);
  rtopk_problem problem;
  rtopk_problem_init(&problem);
  problem.rows = ROWS;
  problem.cols = COLS;
  problem.k = K;
  problem.values = 0;
  rtopk_plan plan;
  rtopk_status status = rtopk_make_plan_threads(&problem, THREADS, &plan);
  void* workspace = malloc(rtopk_workspace_bytes(&plan));
  rtopk_output output = {.indices = indices};
  if (status.code == RTOPK_OK) {
    status = rtopk_run(&plan, matrix, &output, workspace, rtopk_workspace_bytes(&plan), NULL);
  }
  int wrong = status.code != RTOPK_OK;
  for (int i = 0; i < ROWS * K && !wrong; ++i) wrong = indices[i] != COLS - K + i % K;
  if (wrong) printf("wrong: %s\n", status.text);
  free(workspace);
  free(indices);
  free(matrix);
  return wrong;
}
