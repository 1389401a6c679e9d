#include <pcce.h>
#include <stdio.h>

double rectangle(double a, double b) {
  char token[512];
  pcce_token(token, sizeof token);
  printf("%s\n", token);
  return a * b;
}
