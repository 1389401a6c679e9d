int work(int), deep(int);
int main(int n, char **v) {
  int local = work(n) + work(n + 1);
  return local + deep(local) + work(n) > 0 ? 3 : (int)(long)v;
}
