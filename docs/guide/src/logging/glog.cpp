#include <glog/logging.h>
#include <pcce.h>

static void reload(int file) {
  if (file == 2) LOG(WARNING) << "file " << file << " is empty " << pcce::token();
}

int main(int, char **argv) {
  FLAGS_logtostderr = true;
  FLAGS_log_prefix = false;
  google::InitGoogleLogging(argv[0]);
  for (int file = 1; file <= 2; file++) reload(file);
  return 0;
}
