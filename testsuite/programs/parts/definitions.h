// Shared by definitions.c and its module.
int other_ifunc(const char *name);
int by_ifunc(const char *name);
int use_gnu(const char *name);
void in_other(const char *name);
void gnu_leaf(const char *name);
int gnu(const char *name);

#ifndef GNU_HERE
// For the optimiser alone: the definition in parts/definitions.c is the one that runs where it is called.
extern __inline__ __attribute__((gnu_inline)) int gnu(const char *name) { gnu_leaf(name); KEEP; return 3; }
#endif
