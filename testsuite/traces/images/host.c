#include <dlfcn.h>
#include <stdio.h>
int twice(int n, int (*f)(int));
int square(int n) { return n * n; }
__attribute__((noinline)) static int odd(int n) { return n & 1 ? square(n) : 0; }
int main(int argc, char **argv) {
  int sum = 0;
  for (int i = 0; i < 3; i++) {
    sum += twice(i, i == 1 ? odd : square);
    void *plugin = dlopen(argv[1], RTLD_NOW);
    if (!plugin) { puts(dlerror()); return 1; }
    int (*each)(int, int (*)(int)) = (int (*)(int, int (*)(int)))dlsym(plugin, "each");
    sum += each(3, square) + each(2, odd);
    dlclose(plugin);
  }
  printf("%d\n", sum);
}
