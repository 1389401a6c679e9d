// Shared by modules.c and other.c.
void ping(int n);
void pong(int n);
void callback(void);
int weak_in_both(void);
void other_name(const char *name);
void through_alias(const char *name);
void use_inline(const char *name);

// Each module that uses it has a copy, and the linker keeps one.
__attribute__((weak)) NOINLINE void shared_inline(const char *name) { SHOW(name); KEEP; }
