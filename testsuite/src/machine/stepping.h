// Single stepping, and the registers of an interrupted point, for the machine that the tests run on.
#ifdef __x86_64__
#include "x86_64/stepping.h"
#elif defined __aarch64__
#include "aarch64/stepping.h"
#endif
