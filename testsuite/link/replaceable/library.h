#include <pcce.h>
#include <stdio.h>

// Functions of the library. Others may replace those that are not marked otherwise.
extern "C" {
int leaf(int x);
int silent(int x);
int thrower(int x);
int plain_caller(int (*f)(int), int x);
int recursive(int n);
int many(int a, double b, const char *c, long d, long e, long f, long g, struct Large large);
int variadic(int n, ...);
int own(int x);
int work(int x);
}
struct Large { long words[6]; };
void show(const char *what);
