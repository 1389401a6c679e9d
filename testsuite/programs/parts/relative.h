typedef int next(int, const char *, void *);
typedef int varying(int, const char *, ...);
int step(int n, const char *name, next *f, void *then);
int visit(int n, const char *name, void *then);
int vary(int n, const char *name, ...);
