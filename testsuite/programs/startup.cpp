// Code outside main: static constructors, functions of atexit, destructors of static objects.
//# Chain constructor: Early::Early() < ...
//# Chain destructor: Early::~Early()
//# Chain atexit: at_exit()
//# Chain constructor-attribute: early()
//# Chain destructor-attribute: late()
//# Chain main: helper < main
#include "show.h"
#include <cstdlib>

NOINLINE static void helper(const char *name) { SHOW(name); KEEP; }

struct Early {
  NOINLINE Early() { SHOW("constructor"); puts("constructor"); }
  NOINLINE ~Early() { SHOW("destructor"); puts("destructor"); }
};
static Early object;

__attribute__((constructor)) static void early() { SHOW("constructor-attribute"); puts("early"); }
__attribute__((destructor)) static void late() { SHOW("destructor-attribute"); puts("late"); }
static void at_exit() { SHOW("atexit"); puts("atexit"); }

int main() {
  atexit(at_exit);
  helper("main");
  return 0;
}
