// Shared by templates.cpp and parts/templates.cpp.
template <typename T> NOINLINE T twice(T value, const char *name) {
  SHOW(name);
  KEEP;
  return value * 2;
}

struct Counter {
  int count = 0;
  NOINLINE int next(const char *name) {
    SHOW(name);
    KEEP;
    return ++count;
  }
};

NOINLINE inline int make_static() {
  SHOW("static");
  KEEP;
  return 5;
}

NOINLINE inline int &instance() {
  static int value = make_static();
  return value;
}

long in_other(long n);
