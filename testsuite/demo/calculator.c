/* A small calculator: recursive descent, functions in a table, a sort with a comparison
 * function. Built with pcce-clang, it writes a context token into its log wherever something
 * is worth telling. The tokens are decoded later, by `pcce decode`. */
#include <ctype.h>
#include <pcce.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *input;

/* The program's own log: what happened, and in which context. */
static void log_event(const char *what, double value) {
  char token[256];
  pcce_token(token, sizeof token);
  printf("%s %g: %s\n", what, value, token);
}

static double expression(void);

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  if (x == y)
    log_event("two equal arguments", x);
  return (x > y) - (x < y);
}

static double median(double *v, int n) {
  qsort(v, n, sizeof *v, by_value);
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double sum(double *v, int n) {
  double s = 0;
  while (n > 0)
    s += v[--n];
  return s;
}

static double fact(double *v, int n) {
  if (n != 1 || v[0] < 2)
    return 1;
  double less = v[0] - 1;
  if (less == 3)
    log_event("halfway down", less);
  return v[0] * fact(&less, 1);
}

static const struct {
  const char *name;
  double (*call)(double *, int);
} functions[] = {{"median", median}, {"sum", sum}, {"fact", fact}};

static void blanks(void) { input += strspn(input, " "); }

static double call(const char *name, size_t length) {
  double arguments[16];
  int n = 0;
  do {
    input++; /* the parenthesis or the comma */
    double value = expression();
    if (n < 16)
      arguments[n++] = value;
    blanks();
  } while (*input == ',');
  input += *input == ')';
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (strlen(functions[i].name) == length && !strncmp(functions[i].name, name, length))
      return functions[i].call(arguments, n);
  log_event("unknown function", n);
  return 0;
}

static double primary(void) {
  blanks();
  if (*input == '(') {
    input++;
    double value = expression();
    blanks();
    input += *input == ')';
    return value;
  }
  if (isalpha((unsigned char)*input)) {
    const char *name = input;
    while (isalpha((unsigned char)*input))
      input++;
    return call(name, input - name);
  }
  char *end;
  double value = strtod(input, &end);
  input = end;
  return value;
}

static double term(void) {
  double value = primary();
  for (blanks(); *input == '*' || *input == '/'; blanks()) {
    char op = *input++;
    double right = primary();
    if (op == '/' && right == 0)
      log_event("division by zero in", value);
    value = op == '*' ? value * right : value / right;
  }
  return value;
}

static double expression(void) {
  double value = term();
  for (blanks(); *input == '+' || *input == '-'; blanks()) {
    char op = *input++;
    value += op == '+' ? term() : -term();
  }
  return value;
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    input = argv[i];
    double value = expression();
    printf("%s = %g\n", argv[i], value);
  }
  return 0;
}
