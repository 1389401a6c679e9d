// One process with modules that were encoded together, modules that were encoded alone, and a library of the
// other mode: all use one block of the thread, and tokens hold frames of all of them.
//# WithModule: parts/both_modes.c
//# Library: parts/library.c
//# LibraryFlags[lto]: --pcce-mode=module
//# LibraryFlags[module]: --pcce-mode=lto
//# Chain alone: apart_leaf < apart < main
//# Chain alone: library_leaf < library_alone < main
//# Chain variadic: library_leaf < library_variadic < library_alone < main
//# Chain down: leaf < together < apart < main
//# Chain again: apart_leaf < apart < together < apart < main
//# Chain across: leaf < callback < library_step < library_calls < apart_library < main
//# Chain exported: leaf < exported < library_alone < main
//# Chain thread: library_leaf < library_thread < <thread> < library_alone < main
//# Chain recursion: leaf < recursive < apart_recursive < main
//# Chain shared: shared < main
//# Chain shared-apart: shared < apart_shared < main
//# Chain after: main
//# Flags: -fPIC
#include "show.h"
#include "parts/library.h"
#include "parts/both_modes.h"

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }
NOINLINE void together(const char *name) {
  if (name) leaf(name);
  else apart("again", 0);
  KEEP;
}
NOINLINE void recursive(int n) {
  if (n == 0) leaf("recursion");
  else apart_recursive(n - 1);
  KEEP;
}
NOINLINE void callback(int n) { leaf("across"); printf("%d\n", n); KEEP; }
NOINLINE void exported(const char *name) { leaf(name); KEEP; }

int main(void) {
  apart("alone", 0);
  apart("down", 1);
  apart(NULL, 1);
  apart_library(callback);
  apart_recursive(1);
  printf("%d\n", library_alone(4));
  shared("shared");
  apart_shared("shared-apart");
  SHOW("after");
  return 0;
}
