// Two processes and one block: the parent exports it, the child, a fresh process of the same
// program, adds to it in place. They take turns by a byte through a pipe.
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.cuh"

extern char** environ;

namespace {

constexpr int kChildReads = 3, kChildWrites = 4;

void Put(int file, const void* bytes, size_t count) {
  if (write(file, bytes, count) == static_cast<ssize_t>(count)) return;
  fprintf(stderr, "the other process is gone\n");
  exit(1);
}

void Get(int file, void* bytes, size_t count) {
  for (size_t got = 0; got < count;) {
    const ssize_t now = read(file, static_cast<char*>(bytes) + got, count - got);
    if (now <= 0) {
      fprintf(stderr, "the other process is gone\n");
      exit(1);
    }
    got += now;
  }
}

int Child() {
  cudaIpcMemHandle_t handle;
  Get(kChildReads, &handle, sizeof handle);
  void* shared = nullptr;
  REQUIRE(cudaIpcOpenMemHandle(&shared, handle, cudaIpcMemLazyEnablePeerAccess));
  auto* y = static_cast<float*>(shared);
  float* x = Allocated(kBytes);
  for (int step = 0; step < kSteps; ++step) {
    char turn;
    Get(kChildReads, &turn, 1);
    float* temporary = Allocated(2 * kBytes);
    Fill<<<kBlocks, kThreads>>>(x, static_cast<float>(step), kCount);
    Halve<<<kBlocks, kThreads>>>(temporary, x, kCount);
    Axpy<<<kBlocks, kThreads>>>(y, temporary, 0.5f, kCount);
    Axpy<<<kBlocks, kThreads>>>(y, x, 1.5f, kCount);
    REQUIRE(cudaDeviceSynchronize());
    REQUIRE(cudaFree(temporary));
    Put(kChildWrites, &turn, 1);
  }
  REQUIRE(cudaIpcCloseMemHandle(shared));
  REQUIRE(cudaFree(x));
  return 0;
}

struct Other {
  pid_t pid;
  int to, from;
};

Other Start(char* program) {
  int down[2], up[2];
  if (pipe(down) != 0 || pipe(up) != 0) exit(1);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // By way of high numbers: a pipe's end may already have the number of another one's goal.
  posix_spawn_file_actions_adddup2(&actions, down[0], 100);
  posix_spawn_file_actions_adddup2(&actions, up[1], 101);
  for (int end : {down[0], down[1], up[0], up[1]}) {
    posix_spawn_file_actions_addclose(&actions, end);
  }
  posix_spawn_file_actions_adddup2(&actions, 100, kChildReads);
  posix_spawn_file_actions_adddup2(&actions, 101, kChildWrites);
  char word[] = "child";
  char* arguments[] = {program, word, nullptr};
  Other other = {0, down[1], up[0]};
  if (posix_spawn(&other.pid, "/proc/self/exe", &actions, nullptr, arguments, environ) != 0) {
    fprintf(stderr, "the child cannot be started\n");
    exit(1);
  }
  close(down[0]);
  close(up[1]);
  return other;
}

int Parent(char* program) {
  const Other other = Start(program);
  float *y = Allocated(kBytes), *x = Allocated(kBytes);
  REQUIRE(cudaMemset(y, 0, kBytes));
  Fill<<<kBlocks, kThreads>>>(x, 1.0f, kCount);
  REQUIRE(cudaDeviceSynchronize());
  cudaIpcMemHandle_t handle;
  REQUIRE(cudaIpcGetMemHandle(&handle, y));
  Put(other.to, &handle, sizeof handle);
  Sum sum;
  for (int step = 0; step < kSteps; ++step) {
    float* temporary = Allocated(2 * kBytes);
    Halve<<<kBlocks, kThreads>>>(temporary, y, kCount);
    Axpy<<<kBlocks, kThreads>>>(temporary, x, 1.0f, kCount);
    Fill<<<kBlocks, kThreads>>>(x, static_cast<float>(step), kCount);
    Axpy<<<kBlocks, kThreads>>>(y, temporary, 0.25f, kCount);
    REQUIRE(cudaDeviceSynchronize());
    REQUIRE(cudaFree(temporary));
    char turn = 1;
    Put(other.to, &turn, 1);
    Get(other.from, &turn, 1);
    sum.AddDevice(y, kCount);
  }
  int status = 1;
  waitpid(other.pid, &status, 0);
  if (status != 0) {
    fprintf(stderr, "the child ended with status %d\n", status);
    return 1;
  }
  REQUIRE(cudaFree(x));
  REQUIRE(cudaFree(y));
  sum.Print();
  return 0;
}

}  // namespace

int main(int count, char** words) {
  return count > 1 && strcmp(words[1], "child") == 0 ? Child() : Parent(words[0]);
}
