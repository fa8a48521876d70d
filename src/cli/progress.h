// What is going on, on a terminal; nothing in a pipe or a log.
#ifndef EBBTIDE_SRC_CLI_PROGRESS_H_
#define EBBTIDE_SRC_CLI_PROGRESS_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ebt::cli {

// One line on stderr with the stage and its seconds, once it has taken half a second. Erased by
// Done, or when the object goes. One thread uses it.
class Progress {
 public:
  explicit Progress(std::string stage);
  ~Progress() { Done(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(std::string stage);
  void Done();

 private:
  void Draw();

  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string stage_;
  Clock::time_point since_;
  bool done_ = false;
  bool drawn_ = false;
  std::thread painter_;
};

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_PROGRESS_H_
