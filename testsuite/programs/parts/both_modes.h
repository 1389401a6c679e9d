// What both_modes.c and its module share.
void apart(const char *name, int down);
void apart_library(void (*f)(int));
void apart_recursive(int n);
void together(const char *name);
void recursive(int n);
