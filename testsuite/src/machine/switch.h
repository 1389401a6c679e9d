// A switch of stacks in assembly, as fiber libraries have it, for the machine that the tests run on.
#ifndef SWITCH_H
#define SWITCH_H
#include <stdint.h>
#include <stdlib.h>

// Leaves the current stack, with its pointer in *from, for the one with the pointer to.
#ifdef __cplusplus
extern "C"
#endif
void switch_stack(void **from, void *to);

#ifdef __x86_64__
#include "x86_64/switch.h"
#endif
#ifdef __aarch64__
#include "aarch64/switch.h"
#endif
#endif
