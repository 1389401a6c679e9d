#include "../show.h"
#include "objects.h"

NOINLINE void other_static() { instance(); KEEP; }
NOINLINE void other_inline() { Inline object("in-other", "destroyed"); KEEP; }
