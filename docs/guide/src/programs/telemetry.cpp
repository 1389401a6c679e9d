#include <chrono>
#include <cstdio>
#include <pcce.h>

static const char trace[] = "5b8efff798038103d269b633813fc60c";
static unsigned long long last;

static unsigned long long now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

// A default argument is taken where the function is called.
static void warn(const char *text, const pcce::token &context = pcce::token()) {
  std::printf(R"({"resourceLogs":[{"scopeLogs":[{"logRecords":[{"traceId":"%s","timeUnixNano":"%llu",)"
              R"("severityText":"WARN","body":{"stringValue":"%s"},)"
              R"("attributes":[{"key":"pcce.token","value":{"stringValue":"%s"}}]}]}]}]})" "\n",
              trace, now(), text, context.c_str());
}

class span {
public:
  explicit span(const char *name, const pcce::token &context = pcce::token())
      : name_(name), context_(context), id_(++last), start_(now()) {}
  ~span() {
    std::printf(R"({"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s","spanId":"%016llx","name":"%s",)"
                R"("kind":1,"startTimeUnixNano":"%llu","endTimeUnixNano":"%llu",)"
                R"("attributes":[{"key":"pcce.token","value":{"stringValue":"%s"}}]}]}]}]})" "\n",
                trace, id_, name_, start_, now(), context_.c_str());
  }

private:
  const char *name_;
  pcce::token context_;
  unsigned long long id_, start_;
};

static void reload(int file) {
  span whole("reload");
  if (file == 2) warn("the file is empty");
}

int main() {
  for (int file = 1; file <= 2; file++) reload(file);
  return 0;
}
