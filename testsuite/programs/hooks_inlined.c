// Hooks at the entry and the exit of each function that is left after inlining.
//# Flags: -finstrument-functions-after-inlining
//# Chain enter: __cyg_profile_func_enter < leaf < middle < main
//# Chain exit: __cyg_profile_func_exit < leaf < middle < main
//# Chain end: __cyg_profile_func_exit < middle < main
//# Chain after: main
#include "parts/hooks.h"
