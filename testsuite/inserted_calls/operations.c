// Operations for which code generation calls functions.
typedef __int128 wide;
typedef unsigned __int128 unsigned_wide;
#define BINARY(type, name, op) type name(type a, type b) { return a op b; }
#define CONVERT(from, to) to from##_to_##to(from a) { return (to)a; }
#define ALL(type) BINARY(type, add_##type, +) BINARY(type, sub_##type, -) BINARY(type, mul_##type, *) \
  BINARY(type, div_##type, /)
typedef __float128 quad;
typedef long double extended;
typedef _Float16 half;
typedef __bf16 brain;
typedef _Complex double complex;
ALL(wide) ALL(unsigned_wide) ALL(quad) ALL(half) ALL(complex) ALL(extended)
BINARY(wide, rem_wide, %) BINARY(unsigned_wide, rem_unsigned_wide, %)
#define FLOATS(X, type) X(half, type) X(float, type) X(double, type) X(extended, type) X(quad, type)
FLOATS(CONVERT, wide) FLOATS(CONVERT, unsigned_wide) FLOATS(CONVERT, int) FLOATS(CONVERT, unsigned)
FLOATS(CONVERT, long) FLOATS(CONVERT, half) FLOATS(CONVERT, float) FLOATS(CONVERT, double) FLOATS(CONVERT, extended)
FLOATS(CONVERT, quad) CONVERT(float, brain) CONVERT(double, brain)
#define INTEGERS(X, type) X(wide, type) X(unsigned_wide, type) X(int, type) X(long, type)
INTEGERS(CONVERT, half) INTEGERS(CONVERT, float) INTEGERS(CONVERT, double) INTEGERS(CONVERT, extended)
INTEGERS(CONVERT, quad)
int less(quad a, quad b) { return (a < b) + (a >= b) * 2 + (a != b) * 4 + __builtin_isunordered(a, b) * 8; }
double power(double a, int b) { return __builtin_powi(a, b); }
double sine(double a) { return __builtin_elementwise_sin(a); }
double round_it(double a) { return __builtin_elementwise_roundeven(a) + __builtin_elementwise_floor(a); }
double logarithm(double a) { return __builtin_elementwise_log(a) + __builtin_elementwise_exp(a); }
unsigned_wide swap(unsigned_wide *p, unsigned_wide a) { return __atomic_exchange_n(p, a, 5); }
struct big { char bytes[4096]; };
void copy(struct big *a, struct big *b) { *a = *b; }
void clear(struct big *a) { *a = (struct big){0}; }
void flush(char *a, char *b) { __builtin___clear_cache(a, b); }
int overflows(wide a, wide b) { wide c; return __builtin_mul_overflow(a, b, &c); }
extern __thread int variable;
int *thread_local_address(void) { return &variable; }
void use(char *);
void protected(void) { char buffer[64]; use(buffer); }
