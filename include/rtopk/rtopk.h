/* rtopk for C. Problem, plan and run work as in <rtopk/rtopk.hpp>, which documents the full contract.
 *
 *   rtopk_problem problem;
 *   rtopk_problem_init(&problem);
 *   problem.rows = n; problem.cols = m; problem.k = 32;
 *   rtopk_plan plan;
 *   rtopk_status status = rtopk_make_plan(&problem, &plan);
 *   if (status.code != RTOPK_OK) puts(status.text);
 *   void* workspace = malloc(rtopk_workspace_bytes(&plan));
 *   rtopk_output output = {.values = values, .indices = indices};
 *   status = rtopk_run(&plan, matrix, &output, workspace, rtopk_workspace_bytes(&plan), NULL);
 */
#ifndef RTOPK_RTOPK_H
#define RTOPK_RTOPK_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define RTOPK_C_API
#else
#define RTOPK_C_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Enumerators have the values of the C++ enumerators of the same name. The fields that hold them are int32_t, so that
 * the library can check any value. */

/** Element types, as rtopk::DType. */
enum { RTOPK_F32, RTOPK_F16, RTOPK_BF16, RTOPK_F64, RTOPK_I32 };
/** Directions, as rtopk::Direction. */
enum { RTOPK_LARGEST, RTOPK_SMALLEST };
/** Orders of the results of a row, as rtopk::Order. */
enum { RTOPK_UNSORTED, RTOPK_BY_VALUE, RTOPK_BY_INDEX };
/** Result forms, as rtopk::Form. */
enum { RTOPK_PAIRS, RTOPK_DENSE, RTOPK_MASK, RTOPK_CBSR };
/** Index types, as rtopk::IndexType. */
enum { RTOPK_INDEX_I32, RTOPK_INDEX_I64, RTOPK_INDEX_U8, RTOPK_INDEX_U16 };
/** Searches, as rtopk::Search. */
enum { RTOPK_SEARCH_FAST, RTOPK_SEARCH_BISECTION };
/** Rules of early stopping, as rtopk::Rule. */
enum { RTOPK_RULE_THRESHOLD_FIRST, RTOPK_RULE_PRINTED };
/** Types of optional arrays, as rtopk::ArrayType. */
enum { RTOPK_ARRAY_NONE, RTOPK_ARRAY_I32, RTOPK_ARRAY_I64 };
/** What the written indices are, as rtopk::IndexKind. */
enum { RTOPK_INDEX_COLUMN, RTOPK_INDEX_IDS, RTOPK_INDEX_PAGES, RTOPK_INDEX_SHIFTED };
/** Kinds of devices, as rtopk::DeviceKind. */
enum { RTOPK_CPU, RTOPK_CUDA };
/** Status codes, as rtopk::StatusCode. */
enum { RTOPK_OK, RTOPK_INVALID_ARGUMENT, RTOPK_NOT_SUPPORTED, RTOPK_WORKSPACE_TOO_SMALL, RTOPK_DEVICE_ERROR };

/** Result of a call. */
typedef struct rtopk_status {
  int32_t code;   /**< RTOPK_OK, or the kind of error */
  char text[256]; /**< a message that says what to change; empty on success */
} rtopk_status;

/** One row-wise selection, as rtopk::Problem. Call rtopk_problem_init() first. */
typedef struct rtopk_problem {
  int64_t rows;
  int64_t cols;
  int64_t k;
  int64_t row_stride;     /**< elements from one row to the next; 0 means cols * element_stride */
  int64_t element_stride; /**< elements from one element of a row to the next; 0 means 1 */
  int64_t group_rows;     /**< rows of a group; 0: all rows are one group */
  int64_t group_stride;   /**< elements from one group of rows to the next; only with group_rows */
  int32_t dtype;
  int32_t direction;
  int32_t order;
  int32_t form;
  int32_t index_type;
  int32_t values;  /**< 1: write values */
  int32_t indices; /**< 1: write indices */
  int32_t passes;  /**< 1: write the number of search passes of each row */
  int32_t max_iter;
  int32_t search;
  int32_t rule; /**< of max_iter */
  double epsilon;
  int32_t magnitude;  /**< 1: compare absolute values */
  int32_t thresholds; /**< 1: write the kth value of each row */
  int32_t lengths;    /**< RTOPK_ARRAY_...: type of the lengths of rows; so for the next three */
  int32_t starts;
  int32_t offsets;  /**< rows are segments of a flat input */
  int32_t row_k;    /**< k of each row */
  int64_t elements; /**< of the flat input, with offsets */
  int32_t index_kind;
  int32_t map_type; /**< of rtopk_row_arrays.map */
  int64_t map_stride;
  int64_t pages;
  int64_t page_size;
  int64_t tables;
  int32_t table_of;
  int32_t device_kind;
  int32_t device_ordinal;
} rtopk_problem;

/** The arrays that describe rows and indices, as rtopk::RowArrays. */
typedef struct rtopk_row_arrays {
  const void* lengths;
  const void* starts;
  const void* offsets;
  const void* k;
  const void* map;
  const void* table_of;
} rtopk_row_arrays;

/** What will run. The content is private; copy it freely. It begins with a magic number, its size and the library's
 * version. Functions refuse a plan where these differ, which catches almost all memory that is not a plan. */
typedef struct rtopk_plan {
  uint64_t opaque[64];
} rtopk_plan;

/** The output arrays, as rtopk::Output. */
typedef struct rtopk_output {
  void* values;
  void* indices;
  void* dense;
  uint8_t* mask;
  int32_t* passes;
  void* thresholds;
} rtopk_output;

/** Must call task(task_context, i) exactly once for every i in [0, count), and return after all calls have returned. */
typedef struct rtopk_executor {
  void (*parallel_for)(void* context, int64_t count, void (*task)(void* task_context, int64_t i), void* task_context);
  void* context;
} rtopk_executor;

/** Where a run executes, as rtopk::Launch. */
typedef struct rtopk_launch {
  void* stream;                   /**< CUDA: a cudaStream_t; NULL is the default stream */
  const rtopk_executor* executor; /**< CPU: NULL means the library's own threads */
} rtopk_launch;

/** Fills in the defaults: f32, largest, unsorted pairs with int64 indices, exact, on the CPU. */
RTOPK_C_API void rtopk_problem_init(rtopk_problem* problem);

/** Checks the problem and plans it for its device. */
RTOPK_C_API rtopk_status rtopk_make_plan(const rtopk_problem* problem, rtopk_plan* plan);

/** The same for CPU problems, with a given number of threads (>= 1) instead of all CPUs. */
RTOPK_C_API rtopk_status rtopk_make_plan_threads(const rtopk_problem* problem, int32_t threads, rtopk_plan* plan);

/** Bytes of workspace that rtopk_run needs; 0 if `plan` is not a plan of this version. */
RTOPK_C_API size_t rtopk_workspace_bytes(const rtopk_plan* plan);

/** Writes the plan as text, truncated to `size` bytes including the terminating zero. Returns the length of the whole
 * text, or 0 if `plan` is not a plan of this version or if memory is short. */
RTOPK_C_API size_t rtopk_plan_text(const rtopk_plan* plan, char* text, size_t size);

/** Executes the plan. `launch` may be NULL. */
RTOPK_C_API rtopk_status rtopk_run(const rtopk_plan* plan, const void* input, const rtopk_output* output,
                                   void* workspace, size_t workspace_bytes, const rtopk_launch* launch);

/** The same for a problem whose rows or indices are described by arrays. `arrays` may be NULL if none are. */
RTOPK_C_API rtopk_status rtopk_run_rows(const rtopk_plan* plan, const void* input, const rtopk_row_arrays* arrays,
                                        const rtopk_output* output, void* workspace, size_t workspace_bytes,
                                        const rtopk_launch* launch);

/** The library's version, for example "0.1.0". */
RTOPK_C_API const char* rtopk_version(void);

#ifdef __cplusplus
}
#endif

#endif /* RTOPK_RTOPK_H */
