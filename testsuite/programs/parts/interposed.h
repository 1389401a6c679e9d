// Shared by interposed.c and its libraries.
void work(const char *name);
void library_work(const char *name);
void library_replaced(void);
void replaced(const char *name);
void default_weak(const char *name);
void strong_weak(const char *name);
extern const char *preload_name;
