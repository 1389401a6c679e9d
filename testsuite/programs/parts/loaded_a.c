// Loaded and unloaded by programs; loaded_b.c is the same but for its names, so that one fits where the other was.
#define FUNCTION(name) a_##name
#define STEP 1
#include "loaded.h"
