#include "src/base/own_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

namespace ebt {
namespace {

std::atomic<int> g_own{0};

// The kernel keeps the thread that the process began with until all of it ends.
bool FirstThreadHasEnded() {
  char path[64], stat[512];
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", static_cast<int>(getpid()));
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = read(fd, stat, sizeof(stat) - 1);
  close(fd);
  stat[got > 0 ? got : 0] = '\0';
  const char* name_end = strrchr(stat, ')');  // the name may hold anything
  return name_end && strncmp(name_end, ") Z", 3) == 0;
}

int Threads() {
  DIR* tasks = opendir("/proc/self/task");
  if (!tasks) return -1;
  int count = 0;
  while (const dirent* entry = readdir(tasks)) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

}  // namespace

OwnThread::OwnThread() { g_own.fetch_add(1, std::memory_order_relaxed); }
OwnThread::~OwnThread() { g_own.fetch_sub(1, std::memory_order_relaxed); }

bool ProgramThreadsAreGone() {
  return FirstThreadHasEnded() && Threads() == g_own.load(std::memory_order_relaxed) + 1;
}

}  // namespace ebt
