// Functions of the library, and those that it calls of the program.
void library_calls(void (*f)(int), int n);
int library_alone(int n);
void exported(const char *name);
