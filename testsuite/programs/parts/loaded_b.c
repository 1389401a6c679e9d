#define FUNCTION(name) b_##name
#define STEP 2
#include "loaded.h"
