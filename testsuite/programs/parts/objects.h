// Shared by objects.cpp and parts/objects.cpp. Each emits the constructors and destructors; the linker keeps one.
struct Inline {
  const char *last;
  NOINLINE Inline(const char *name, const char *last) : last(last) { SHOW(name); KEEP; }
  NOINLINE virtual ~Inline() { SHOW(last); KEEP; }
};
struct Static {
  NOINLINE Static() { SHOW("static-in-other"); KEEP; }
  NOINLINE ~Static() { SHOW("exit"); }
};
NOINLINE inline Static &instance() {
  static Static object;
  KEEP;
  return object;
}
void other_static();
void other_inline();
