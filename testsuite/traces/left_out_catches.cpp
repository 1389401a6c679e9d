// `skip_catches` catches an exception, and `skip_cleans` only cleans up; both are left out of the trace.
#define APART __attribute__((noinline))

volatile int sum;

APART void step(int n) { sum += n; }
struct Cleans { ~Cleans() { step(1); } };

APART void throws(int n) {
  sum++;
  if (n) throw n;
}
APART void skip_cleans(int n) {
  Cleans cleans;
  throws(n);
}
APART void skip_catches(int n) {
  try {
    throws(n);
  } catch (int) {
    step(2);
  }
  step(3);
}
APART void passes(int n) {
  try {
    skip_cleans(n);
  } catch (int) {
    step(4);
  }
}
int main(int count, char **) {
  count > 1 ? skip_catches(count) : passes(count);
  step(5);
}
