#define _GNU_SOURCE
#include <pcce.h>
#include <stdio.h>
#include <dlfcn.h>
int lib(int, int (*)(int));
__attribute__((noinline)) int back(int n) { dprintf(1, "%s\n", PCCE_TOKEN); __asm__ volatile(""); return n; }
__attribute__((noinline)) int call(int n) { int r = lib(n, back); __asm__ volatile(""); return r; }
__attribute__((noinline)) int load(int flags) {
  void *handle = dlopen("./libone.so", RTLD_NOW | flags);
  int (*found)(int, int (*)(int)) = (int (*)(int, int (*)(int)))dlsym(handle, "lib");
  int r = found(1, back); __asm__ volatile("");
  dlclose(handle);
  return r; }
int main(void) { int r = RUNS; __asm__ volatile(""); return r == 99; }
