/* Makes the n-th call of a kind fail, in any program that it is preloaded into (LD_PRELOAD). tests/faults/faults.py drives it.
 *
 * It stands between a program and the C library. Calls that the C library makes to itself do not come by here: fwrite's write, or the
 * map behind a large malloc.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { kMalloc, kThread, kOpen, kWrite, kFsync, kRename, kLink, kMap, kKinds };

static const char* const kNames[kKinds] = {"malloc", "thread", "open", "write", "fsync", "rename", "link", "map"};
static const int kErrors[kKinds] = {ENOMEM, EAGAIN, EMFILE, ENOSPC, EIO, EIO, EIO, ENOMEM};

static struct {
  int kind; /* kKinds: none fails, calls are counted */
  long n;
  int lasting;
  size_t min_bytes;
  int signal;     /* raised at the call, which is then made; 0: the call fails */
  int no_tmpfile; /* as on a file system that has no files without a name */
  char under[PATH_MAX];
} armed = {.kind = kKinds};
static int counting = 0;
static atomic_long counts[kKinds];

/* ---- For drivers that load libraries once and arm the shim in a forked child ---- */

/* `kind` may be null: calls are counted and none fails. */
void rtopk_fault_arm(const char* kind, long n, int lasting, const char* under, size_t min_bytes) {
  armed.kind = kKinds;
  for (int i = 0; i < kKinds; ++i) {
    atomic_store(&counts[i], 0);
    if (kind != NULL && strcmp(kind, kNames[i]) == 0) armed.kind = i;
  }
  armed.n = n;
  armed.lasting = lasting;
  armed.min_bytes = min_bytes;
  snprintf(armed.under, sizeof armed.under, "%s", under == NULL ? "" : under);
  counting = 1;
}

void rtopk_fault_disarm(void) { counting = 0; }

/* In the order of kNames. */
void rtopk_fault_counts(long* result) {
  for (int i = 0; i < kKinds; ++i) result[i] = atomic_load(&counts[i]);
}

static long number(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text == NULL ? otherwise : strtol(text, NULL, 10);
}

static void arm_by_environment(void) {
  if (getenv("RTOPK_FAULT_COUNTS") == NULL) return;
  rtopk_fault_arm(getenv("RTOPK_FAULT_KIND"), number("RTOPK_FAULT_N", 0), (int)number("RTOPK_FAULT_LASTING", 0),
                  getenv("RTOPK_FAULT_UNDER"), (size_t)number("RTOPK_FAULT_MIN_BYTES", 0));
  armed.signal = (int)number("RTOPK_FAULT_SIGNAL", 0);
  armed.no_tmpfile = (int)number("RTOPK_FAULT_NO_TMPFILE", 0);
}

/* Calls count from main on: what libraries do before, the registration of CUDA's kernels among them, is not the program's. */
static int (*program)(int, char**, char**);

static int armed_program(int count, char** arguments, char** environment) {
  arm_by_environment();
  return program(count, arguments, environment);
}

int __libc_start_main(int (*main)(int, char**, char**), int count, char** arguments, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* stack_end) {
  int (*start)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void), void (*)(void), void*);
  *(void**)&start = dlsym(RTLD_NEXT, "__libc_start_main");
  program = main;
  return start(armed_program, count, arguments, init, fini, rtld_fini, stack_end);
}

__attribute__((destructor)) static void write_counts(void) {
  const char* path = getenv("RTOPK_FAULT_COUNTS");
  counting = 0;
  if (path == NULL || *path == '\0') return;
  FILE* file = fopen(path, "w");
  if (file == NULL) return;
  for (int i = 0; i < kKinds; ++i) fprintf(file, "%s %ld\n", kNames[i], atomic_load(&counts[i]));
  fclose(file);
}

/* ---- What fails ---- */

/* Whether this call is the one. errno is set if it is. */
static int fails(enum kind kind) {
  if (!counting) return 0;
  const long call = atomic_fetch_add(&counts[kind], 1) + 1;
  if ((int)kind != armed.kind || call < armed.n || (call > armed.n && !armed.lasting)) return 0;
  if (armed.signal != 0) {
    raise(armed.signal);
    return 0;
  }
  errno = kErrors[kind];
  return 1;
}

static int is_under(const char* path) {
  const size_t length = strlen(armed.under);
  return length == 0 || (strncmp(path, armed.under, length) == 0 && (path[length] == '/' || path[length] == '\0'));
}

static int path_is_under(int folder, const char* path) {
  char full[2 * PATH_MAX];
  if (!counting) return 0;
  if (armed.under[0] == '\0' || path == NULL || path[0] == '/') return path == NULL || is_under(path);
  char link[64];
  char base[PATH_MAX];
  if (folder == AT_FDCWD) {
    if (getcwd(base, sizeof base) == NULL) return 0;
  } else {
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    const ssize_t size = readlink(link, base, sizeof base - 1);
    if (size < 0) return 0;
    base[size] = '\0';
  }
  snprintf(full, sizeof full, "%s/%s", base, path);
  return is_under(full);
}

static int file_is_under(int descriptor) {
  char link[64];
  char path[PATH_MAX];
  if (!counting) return 0;
  if (armed.under[0] == '\0') return 1;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const int saved = errno;
  const ssize_t size = readlink(link, path, sizeof path - 1);
  errno = saved;
  if (size < 0) return 0;
  path[size] = '\0';
  return is_under(path);
}

/* ---- Memory ---- */

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static int memory_fails(size_t bytes) { return counting && bytes >= armed.min_bytes && fails(kMalloc); }

void* malloc(size_t bytes) { return memory_fails(bytes) ? NULL : __libc_malloc(bytes); }
void* calloc(size_t number_of, size_t bytes) {
  return memory_fails(number_of * bytes) ? NULL : __libc_calloc(number_of, bytes);
}
void* realloc(void* old, size_t bytes) { return memory_fails(bytes) ? NULL : __libc_realloc(old, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) {
  return memory_fails(bytes) ? NULL : __libc_memalign(alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  return memory_fails(bytes) ? NULL : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  if (memory_fails(bytes)) return ENOMEM;
  void* memory = __libc_memalign(alignment, bytes);
  if (memory == NULL) return ENOMEM;
  *result = memory;
  return 0;
}

/* ---- Everything else ---- */

/* The C library's own function of that name. */
#define NEXT(name)                                            \
  static __typeof__(&name) next_##name;                       \
  if (next_##name == NULL) {                                  \
    const int was_counting = counting;                        \
    counting = 0; /* dlsym may allocate */                    \
    next_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
    counting = was_counting;                                  \
  }

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  NEXT(pthread_create)
  return fails(kThread) ? EAGAIN : next_pthread_create(thread, attributes, start, argument);
}

static int lacks_tmpfile(int flags) {
  if (!armed.no_tmpfile || (flags & O_TMPFILE) != O_TMPFILE) return 0;
  errno = EOPNOTSUPP;
  return 1;
}

static mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

#define OPEN(name)                                                \
  int name(const char* path, int flags, ...) {                    \
    NEXT(name)                                                    \
    va_list arguments;                                            \
    va_start(arguments, flags);                                   \
    const mode_t mode = mode_of(flags, arguments);                \
    va_end(arguments);                                            \
    if (lacks_tmpfile(flags)) return -1;                          \
    if (path_is_under(AT_FDCWD, path) && fails(kOpen)) return -1; \
    return next_##name(path, flags, mode);                        \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                            \
  int name(int folder, const char* path, int flags, ...) {      \
    NEXT(name)                                                  \
    va_list arguments;                                          \
    va_start(arguments, flags);                                 \
    const mode_t mode = mode_of(flags, arguments);              \
    va_end(arguments);                                          \
    if (lacks_tmpfile(flags)) return -1;                        \
    if (path_is_under(folder, path) && fails(kOpen)) return -1; \
    return next_##name(folder, path, flags, mode);              \
  }
OPENAT(openat)
OPENAT(openat64)

/* What takes a descriptor first and answers -1. */
#define ON_DESCRIPTOR(kind, type, name, parameters, arguments) \
  type name parameters {                                       \
    NEXT(name)                                                 \
    if (file_is_under(descriptor) && fails(kind)) return -1;   \
    return next_##name arguments;                              \
  }
ON_DESCRIPTOR(kWrite, ssize_t, write, (int descriptor, const void* bytes, size_t size), (descriptor, bytes, size))
ON_DESCRIPTOR(kWrite, ssize_t, writev, (int descriptor, const struct iovec* pieces, int number_of),
              (descriptor, pieces, number_of))
ON_DESCRIPTOR(kWrite, ssize_t, pwrite, (int descriptor, const void* bytes, size_t size, off_t at),
              (descriptor, bytes, size, at))
ON_DESCRIPTOR(kWrite, ssize_t, pwrite64, (int descriptor, const void* bytes, size_t size, off64_t at),
              (descriptor, bytes, size, at))
ON_DESCRIPTOR(kWrite, int, fallocate, (int descriptor, int mode, off_t from, off_t size),
              (descriptor, mode, from, size))
ON_DESCRIPTOR(kWrite, int, fallocate64, (int descriptor, int mode, off64_t from, off64_t size),
              (descriptor, mode, from, size))
ON_DESCRIPTOR(kWrite, int, ftruncate, (int descriptor, off_t size), (descriptor, size))
ON_DESCRIPTOR(kWrite, int, ftruncate64, (int descriptor, off64_t size), (descriptor, size))
ON_DESCRIPTOR(kFsync, int, fsync, (int descriptor), (descriptor))
ON_DESCRIPTOR(kFsync, int, fdatasync, (int descriptor), (descriptor))

int rename(const char* from, const char* to) {
  NEXT(rename)
  return path_is_under(AT_FDCWD, to) && fails(kRename) ? -1 : next_rename(from, to);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  NEXT(renameat)
  return path_is_under(to_folder, to) && fails(kRename) ? -1 : next_renameat(from_folder, from, to_folder, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  NEXT(renameat2)
  return path_is_under(to_folder, to) && fails(kRename) ? -1 : next_renameat2(from_folder, from, to_folder, to, flags);
}
int link(const char* from, const char* to) {
  NEXT(link)
  return path_is_under(AT_FDCWD, to) && fails(kLink) ? -1 : next_link(from, to);
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  NEXT(linkat)
  return path_is_under(to_folder, to) && fails(kLink) ? -1 : next_linkat(from_folder, from, to_folder, to, flags);
}

#define MAP(name, offset_type)                                                                                   \
  void* name(void* address, size_t size, int protection, int flags, int descriptor, offset_type from) {          \
    NEXT(name)                                                                                                   \
    if ((descriptor < 0 ? armed.under[0] == '\0' : file_is_under(descriptor)) && fails(kMap)) return MAP_FAILED; \
    return next_##name(address, size, protection, flags, descriptor, from);                                      \
  }
MAP(mmap, off_t)
MAP(mmap64, off64_t)
