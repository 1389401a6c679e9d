int work(int);
int main(int n, char **v) { return work(n) > 0 ? 3 : (int)(long)v; }
