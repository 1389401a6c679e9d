// Calls in tail position between two modules, which code generation makes jumps.
#ifndef JUMPED_H
#define JUMPED_H
#include "step.h"

extern volatile int sum;
// They take contexts, so their callers change the id.
int noted(int n);
int other_noted(int n);
// In the other module.
int both(int n), first(int n), second(int n), through(int n, int (*f)(int)), around(int n);
#endif
