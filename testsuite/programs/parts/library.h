// What the library offers, and what it takes from the program.
void library_calls(void (*f)(int), int n);
int library_alone(int n);
void exported(const char *name);
