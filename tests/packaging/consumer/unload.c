/* Loads, uses and unloads a plugin many times: unload PLUGIN. Threads of the library must neither be left without the code that they
 * run nor become more each time. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>

static int threads(void) {
  DIR* folder = opendir("/proc/self/task");
  int count = -2; /* . and .. */
  while (folder != NULL && readdir(folder) != NULL) ++count;
  if (folder != NULL) closedir(folder);
  return count;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  int first = 0;
  for (int i = 0; i < 50; ++i) {
    void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) {
      puts(dlerror());
      return 1;
    }
    int (*select_rows)(void);
    *(void**)&select_rows = dlsym(plugin, "select_rows");
    if (select_rows() != 0) return 1;
    if (dlclose(plugin) != 0) return 1;
    if (i == 0) first = threads();
  }
  printf("%d threads after the first time, %d in the end: %s\n", first, threads(),
         first > 1 && threads() == first ? "right" : "wrong");
  return 0;
}
