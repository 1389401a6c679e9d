void apply(int n, void (*f)(void));
