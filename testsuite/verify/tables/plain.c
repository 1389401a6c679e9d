__thread int depth; __thread struct entry { const char *name, *file; int line; } entries[64];
void note(const char *text, unsigned long long number) { (void)text; (void)number; }
