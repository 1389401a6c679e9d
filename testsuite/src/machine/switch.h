// A switch of stacks, as fiber libraries have it, for the machine that the tests run on.
#ifdef __x86_64__
#include "x86_64/switch.h"
#endif
#ifdef __aarch64__
#include "aarch64/switch.h"
#endif
