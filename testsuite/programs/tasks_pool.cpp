// Tasks of C++ in a thread that serves a queue: an exception leaves one, bodies have state, and what was submitted is
// gone when the thread goes on.
//# Chain idle: work < serve() < ... < <thread> < ... < main
//# Chain counted: work < counted < ... < <pcce_task_run> < serve_one < serve() < ... < <task> < ... < submit < first < main
//# Chain counted: work < counted < ... < <pcce_task_run> < serve_one < serve() < ... < <task> < ... < submit < second < main
//# Chain throws: work < throws < ... < <pcce_task_run> < serve_one < serve() < ... < <task> < ... < submit < second < main
//# Chain caught: work < serve() < ... < <thread> < ... < main
//# Flags: -std=c++17 -pthread
#include "show.h"
#include <condition_variable>
#include <memory>
#include <mutex>
#include <queue>
#include <stdexcept>
#include <thread>

NOINLINE static void work(const char *name) { SHOW_ACROSS(name); KEEP; }

struct Job {
  pcce::task task;
  void (*body)(int);
};

static std::mutex mutex;
static std::condition_variable more;
static std::queue<std::unique_ptr<Job>> jobs;

NOINLINE static std::unique_ptr<Job> take() {
  std::unique_lock<std::mutex> lock(mutex);
  more.wait(lock, [] { return !jobs.empty(); });
  auto job = std::move(jobs.front());
  jobs.pop();
  return job;
}

NOINLINE static void serve_one(const Job &job, int number) {
  job.task.run([&] { job.body(number); KEEP; });
  KEEP;
}

static void serve() {
  work("idle");
  for (int number = 0;; number++) {
    auto job = take();
    if (!job) break;
    try {
      serve_one(*job, number);
    } catch (const std::exception &e) {
      puts(e.what());
      job.reset();
      work("caught");
    }
  }
}

NOINLINE static void submit(void (*body)(int)) {
  std::unique_ptr<Job> job;
  if (body) {
    job.reset(new Job);
    job->body = body;
  }
  std::lock_guard<std::mutex> lock(mutex);
  jobs.push(std::move(job));
  more.notify_one();
}

static void counted(int number) { printf("%d\n", number); work("counted"); KEEP; }
static void throws(int number) {
  work("throws");
  throw std::runtime_error(number == 2 ? "the third" : "another");
}

NOINLINE static void first() { submit(counted); KEEP; }
NOINLINE static void second() {
  submit(counted);
  submit(throws);
  KEEP;
}

int main() {
  std::thread thread(serve);
  first();
  second();
  submit(nullptr);
  thread.join();
  return 0;
}
