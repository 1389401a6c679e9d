// Two threads log; prefixes have glog's own form.
#include <thread>

#include <pcce/glog.h>

__attribute__((noinline)) static void west(int number) { LOG(INFO) << "west " << number; }
__attribute__((noinline)) static void east(int number) { LOG(WARNING) << "east " << number; }

int main(int, char **argv) {
  FLAGS_logtostderr = true;
  pcce::init_google_logging(argv[0]);
  std::thread one([] { for (int i = 0; i < 100; i++) west(i); });
  std::thread two([] { for (int i = 0; i < 100; i++) east(i); });
  one.join();
  two.join();
  FLAGS_log_prefix = false;
  LOG(INFO) << "bare";
  return 0;
}
