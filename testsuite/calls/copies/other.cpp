#include "both.h"

int other(int n) { return both(n) + take(n) + take(n) + take(n) + take(n) + take(n); }
