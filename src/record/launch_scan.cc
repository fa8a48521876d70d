#include "src/record/launch_scan.h"

#include <algorithm>
#include <array>

#include "src/driver/launch_words.h"

namespace ebt::record {
namespace {

// Words that may be addresses, looked up together so that the lock is taken once.
class Candidates {
 public:
  Candidates(const LiveBlocks& live, std::vector<uint32_t>& touched)
      : live_(live), touched_(touched) {}

  void Add(uint64_t word) {
    if (!live_.MayContain(word)) return;
    words_[count_++] = word;
    if (count_ == words_.size()) LookUp();
  }

  void LookUp() {
    live_.Find({words_.data(), count_}, touched_);
    count_ = 0;
  }

 private:
  const LiveBlocks& live_;
  std::vector<uint32_t>& touched_;
  std::array<uint64_t, 128> words_;
  size_t count_ = 0;
};

// The finalizer of SplitMix64: every bit of the input reaches every bit of the output.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

void ScanLaunch(const ebt_launch& launch, const FunctionLayout& layout, const LiveBlocks& live,
                std::vector<uint32_t>& touched) {
  touched.clear();
  Candidates candidates(live, touched);
  VisitWords(launch, layout, [&candidates](uint64_t word) { candidates.Add(word); });
  candidates.LookUp();
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
}

uint64_t LaunchShape(const ebt_launch& launch) {
  uint64_t hash = 0x6562627469646531ull;
  const auto add = [&hash](uint64_t high, uint64_t low) {
    hash = Mix(hash + ((high << 32 | low) + 0x9e3779b97f4a7c15ull));
  };
  add(launch.grid[0], launch.grid[1]);
  add(launch.grid[2], launch.block[0]);
  add(launch.block[1], launch.block[2]);
  add(0, launch.shared_bytes);
  return hash;
}

}  // namespace ebt::record
