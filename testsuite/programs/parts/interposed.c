#include "../show.h"
#include "interposed.h"

const char *preload_name;

NOINLINE static void library_leaf(const char *name) { SHOW(name); KEEP; }

NOINLINE void work(const char *name) { library_leaf(name); KEEP; }
NOINLINE void library_work(const char *name) { work(name); KEEP; }
NOINLINE void replaced(const char *name) { (void)name; SHOW("wrong"); KEEP; }
__attribute__((visibility("hidden"))) NOINLINE void hidden_step(const char *name) { library_leaf(name); KEEP; }
__attribute__((weak)) NOINLINE void default_weak(const char *name) { SHOW(name); KEEP; }
__attribute__((weak)) NOINLINE void strong_weak(const char *name) { (void)name; SHOW("wrong"); KEEP; }

NOINLINE void library_replaced(void) {
  replaced("replaced");
  hidden_step("visible");
  default_weak("weak");
  strong_weak("strong");
  KEEP;
}
