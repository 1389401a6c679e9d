#include <pcce.h>
#include <stdio.h>
typedef int (*op)(int);
extern op of_one[2], of_other[2];
int walk(int n) {
  char t[600];
  if (n <= 0) { pcce_token(t, sizeof t); puts(t); return 0; }
  return (n % 2 ? of_one : of_other)[n % 3 == 0](n) + 1;
}
int main(void) { int r = 0; for (int i = 3; i < 9; i++) r += walk(i); printf("sum # %d\n", r); return 0; }
