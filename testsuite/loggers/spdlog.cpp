// Two threads log through an asynchronous logger, whose messages a third one writes.
#include <thread>

#include <pcce/spdlog.h>
#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>

static size_t self() { return spdlog::details::os::thread_id(); }

__attribute__((noinline)) static void west(int number) { spdlog::get("app")->info("{} west {}", self(), number); }
__attribute__((noinline)) static void east(int number) { spdlog::get("app")->info("{} east {}", self(), number); }
__attribute__((noinline)) static void keep() { spdlog::get("app")->debug("{} kept", self()); }
__attribute__((noinline)) static void by_hand() { spdlog::info("{} explicit {:>80}", self(), pcce::token()); }

int main() {
  auto logger = spdlog::stdout_logger_mt<spdlog::async_factory>("app");
  logger->flush_on(spdlog::level::err);
  auto with = pcce::with_tokens(logger);
  if (with == logger || spdlog::get("app") != with || with->level() != spdlog::level::info) return 1;
  with->set_pattern("%t %v");
  std::thread one([] { for (int i = 0; i < 500; i++) west(i); });
  std::thread two([] { for (int i = 0; i < 500; i++) east(i); });
  one.join();
  two.join();

  with->enable_backtrace(4);
  keep();
  with->dump_backtrace();
  with->clone("copy")->info("{} cloned", self());

  pcce::with_tokens(spdlog::default_logger());
  spdlog::set_pattern("%t %v");
  by_hand();
  spdlog::shutdown();
}
