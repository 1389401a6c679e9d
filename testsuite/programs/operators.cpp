// The program's own operator new and delete, in another file: in module mode callers do not push for delete.
//# With: parts/operators.cpp
//# Chain new: operator new(unsigned long) < make(int) < main
//# Chain[!module] delete: record < ... < destroy(int*) < main
//# Chain[module] delete: record < ... < <unknown>
//# Chain library: operator new(unsigned long) < ... < main
//# Chain after: main
//# Fixed after
#include "show.h"
#include <string>

extern const char *volatile operator_name;

NOINLINE int *make(int n) {
  operator_name = "new";
  int *p = new int(n);
  KEEP;
  return p;
}

NOINLINE void destroy(int *p) {
  operator_name = "delete";
  delete p;
  KEEP;
}

int main() {
  int *p = make(5);
  printf("%d\n", *p);
  destroy(p);
  destroy(make(6));
  operator_name = "library";
  std::string s(100, 'x');
  operator_name = 0;
  printf("%d\n", int(s.size()));
  SHOW("after");
  return 0;
}
