void library_throws(int n);
void library_second(int n);
long library_sum(int n, ...);
