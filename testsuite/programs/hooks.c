// Hooks at the entry and the exit of each function, before inlining.
//# Flags: -finstrument-functions
//# Chain enter: __cyg_profile_func_enter < leaf < middle < main
//# Chain exit: __cyg_profile_func_exit < leaf < middle < main
//# Chain end: __cyg_profile_func_exit < middle < main
//# Chain after: main
#include "parts/hooks.h"
