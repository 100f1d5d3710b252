#include <rtopk/rtopk.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  const float matrix[8] = {1, 4, 3, 2, 8, 6, 7, 5};
  float values[4] = {0};
  int64_t indices[4] = {0};

  rtopk_problem problem;
  rtopk_problem_init(&problem);
  problem.rows = 2;
  problem.cols = 4;
  problem.k = 2;
  problem.order = RTOPK_BY_VALUE;

  rtopk_plan plan;
  rtopk_status status = rtopk_make_plan(&problem, &plan);
  if (status.code == RTOPK_OK) {
    const size_t bytes = rtopk_workspace_bytes(&plan);
    void* workspace = malloc(bytes + 1);
    const rtopk_output output = {.values = values, .indices = indices};
    status = rtopk_run(&plan, matrix, &output, workspace, bytes, NULL);
    free(workspace);
  }
  if (status.code != RTOPK_OK) {
    puts(status.text);
    return 1;
  }

  const int right = values[0] == 4 && values[1] == 3 && values[2] == 8 && values[3] == 7 && indices[0] == 1 &&
                    indices[1] == 2 && indices[2] == 0 && indices[3] == 2;
  printf("rtopk %s: %s\n", rtopk_version(), right ? "right" : "wrong");
  return right ? 0 : 1;
}
