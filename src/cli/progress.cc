#include "src/cli/progress.h"

#include <unistd.h>

#include "fmt/format.h"

namespace ebt::cli {
namespace {

constexpr auto kFrame = std::chrono::milliseconds(250);
constexpr auto kQuiet = std::chrono::milliseconds(500);
constexpr int kBarCells = 12;

// Nobody knows how far a search still has to go: the mark wanders to show that it lives.
std::string Bar(int frame) {
  const int turn = frame % (2 * (kBarCells - 1));
  const int at = turn < kBarCells ? turn : 2 * (kBarCells - 1) - turn;
  std::string bar(kBarCells, '-');
  bar[static_cast<size_t>(at)] = '#';
  return bar;
}

void WriteStderr(const std::string& text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

Progress::Progress(std::string stage) : stage_(std::move(stage)), since_(Clock::now()) {
  if (isatty(STDERR_FILENO)) painter_ = std::thread([this] { Draw(); });
}

void Progress::Show(std::string stage) {
  const std::lock_guard lock(mutex_);
  stage_ = std::move(stage);
  since_ = Clock::now();
}

void Progress::Done() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  if (painter_.joinable()) painter_.join();
}

void Progress::Draw() {
  std::unique_lock lock(mutex_);
  for (int frame = 0; !changed_.wait_for(lock, kFrame, [this] { return done_; }); ++frame) {
    const auto spent = Clock::now() - since_;
    if (spent < kQuiet && !drawn_) continue;
    const double seconds = std::chrono::duration<double>(spent).count();
    WriteStderr(fmt::format("\r\033[K[{}] {} {:.0f} s", Bar(frame), stage_, seconds));
    drawn_ = true;
  }
  if (drawn_) WriteStderr("\r\033[K");
}

}  // namespace ebt::cli
