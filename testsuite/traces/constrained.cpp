// Functions whose mangled names say what their templates ask, and one in an inline namespace.
#include <type_traits>

#define FUNCTION __attribute__((noinline))

static volatile long sum;

template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0> FUNCTION void add(T value) { sum = sum + value; }
template <class T, std::enable_if_t<!std::is_integral_v<T>, int> = 0> FUNCTION void add(T) { sum = sum + 1; }

template <class T> concept Small = sizeof(T) < 8;
template <Small T> FUNCTION void small(T value) { add(value); }

template <class T> requires Small<T> struct Box {
  T value;
  FUNCTION void put() requires std::is_integral_v<T> { add(value); }
  FUNCTION friend void open(Box box) requires true { add(box.value); }
};

template <auto value> FUNCTION void constant() { add(value); }

namespace app { inline namespace v1 { FUNCTION void inside() { add(1); } } }

int main() {
  add(1);
  add(2.0);
  small('c');
  Box<int>{3}.put();
  open(Box<int>{4});
  constant<5>();
  app::inside();
  return 0;
}
