#include <pcce/glog.h>

static void reload(int file) {
  if (file == 2) LOG(WARNING) << "file " << file << " is empty";
}

int main(int, char **argv) {
  FLAGS_logtostderr = true;
  pcce::init_google_logging(argv[0]);
  for (int file = 1; file <= 2; file++) reload(file);
  return 0;
}
