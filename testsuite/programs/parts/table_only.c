void once(int n);
void twice(int n);
void again(int n);
void (*const table[3])(int n) = {once, twice, again};
