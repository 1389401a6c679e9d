// Functions of one name, which are inlined in one place and not in another.
static volatile long x, y;
static inline void hit(int n) {
  if (n < 0) *(volatile int *)0 = 1;
  x++;
}
struct A {
  virtual void run(int n);
};
struct B : A {
  void run(int n) override;
};
void A::run(int n) {
  x += n;
  hit(n);
}
void B::run(int n) {
  y += n;
  hit(n);
}
int main(int count, char **) {
  A *const all[] = {new A, new B};
  all[0]->A::run(1);
  static_cast<B *>(all[1])->B::run(2);
  all[count - 1]->run(-1);
}
