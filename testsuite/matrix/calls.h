#include "../programs/show.h"
#ifndef SIGNALS
#define SIGNALS 60
#endif
typedef void action(long);
void part_leaf(long n);
void part_middle(long n);
void part_calls(long n, action *f);
long part_spins(long n);
