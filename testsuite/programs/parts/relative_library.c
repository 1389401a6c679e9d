#include "../show.h"
#include "relative.h"

NOINLINE int visit(int n, const char *name, void *then) {
  if (*name == 'l') SHOW(name);
  else n += step(n, name, (next *)then, NULL);
  KEEP;
  return n;
}
NOINLINE int vary(int n, const char *name, ...) { SHOW(name); KEEP; return n; }
