// Parses and evaluates an expression again and again: as many small allocations as a program can make.
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

using Values = std::map<std::string, long>;

struct Expression {
  virtual ~Expression() = default;
  virtual long value(Values &) const = 0;
};
struct Number : Expression {
  long number;
  explicit Number(long n) : number(n) {}
  long value(Values &) const override { return number; }
};
struct Variable : Expression {
  std::string name;
  explicit Variable(std::string n) : name(std::move(n)) {}
  long value(Values &values) const override { return values[name]; }
};
struct Operation : Expression {
  char operation;
  std::unique_ptr<Expression> left, right;
  Operation(char o, std::unique_ptr<Expression> l, std::unique_ptr<Expression> r)
      : operation(o), left(std::move(l)), right(std::move(r)) {}
  long value(Values &values) const override {
    long a = left->value(values), b = right->value(values);
    return operation == '+' ? a + b : operation == '-' ? a - b : a * b % 1000003;
  }
};

struct Parser {
  const std::string &text;
  std::size_t at = 0;
  std::unique_ptr<Expression> atom() {
    if (text[at] == '(') {
      at++;
      auto inner = sum();
      at++;
      return inner;
    }
    if (std::isdigit(text[at])) {
      long number = 0;
      while (std::isdigit(text[at])) number = number * 10 + text[at++] - '0';
      return std::make_unique<Number>(number);
    }
    std::string name;
    while (std::isalpha(text[at])) name += text[at++];
    return std::make_unique<Variable>(name + "_is_no_short_string");
  }
  std::unique_ptr<Expression> product() {
    auto left = atom();
    while (text[at] == '*') {
      at++;
      left = std::make_unique<Operation>('*', std::move(left), atom());
    }
    return left;
  }
  std::unique_ptr<Expression> sum() {
    auto left = product();
    while (text[at] == '+' || text[at] == '-') {
      char operation = text[at++];
      left = std::make_unique<Operation>(operation, std::move(left), product());
    }
    return left;
  }
};

int main(int argc, char **argv) {
  int times = argc > 1 ? std::atoi(argv[1]) : 20000;
  const std::string text =
      "(a+b*(c-17))*((x+y)*(x-y)+3*(a+(b+(c+(d+1)))))-((((q))))*99+f*(g+h*(i+j*(k+l)))";
  long total = 0;
  for (int i = 0; i < times; i++) {
    Values values;
    Parser parser{text};
    total += parser.sum()->value(values);
  }
  std::printf("%ld\n", total);
}
