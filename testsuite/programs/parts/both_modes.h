// Shared by both_modes.c and its module.
void apart(const char *name, int down);
void apart_library(void (*f)(int));
void apart_recursive(int n);
void together(const char *name);
void recursive(int n);
void apart_shared(const char *name);

// Each module has one, and the linker keeps one.
__attribute__((weak)) NOINLINE void shared(const char *name) { SHOW(name); KEEP; }
