#include <stdio.h>
#include <setjmp.h>
void says(const char *what) { puts(what); }
static jmp_buf place; void guarded(void (*f)(void)) { if (!setjmp(place)) f(); }
void away(void) { longjmp(place, 1); }
