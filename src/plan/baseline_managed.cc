// Everything in managed memory, moved by page faults alone:
//   - blocks lie at multiples of 512 bytes in one range of managed addresses, the smallest free
//     range first; what nobody lives in any more is forgotten on both sides;
//   - a page of 2 MiB comes to the device when work first names a block on it, without a copy
//     where nothing was written to it before, and stays;
//   - where the device has no room the page that was named least recently goes to the host, with
//     its bytes.
// The count of moved bytes is a lower bound of what a device would move: it knows which blocks a
// launch names, not in which order a kernel reads them.
#include <vector>

#include "src/base/units.h"
#include "src/plan/baseline_allocator.h"
#include "src/plan/baseline_ranges.h"

namespace ebt::plan {
namespace {

constexpr uint64_t kPage = 2 * kMiB;
constexpr uint64_t kAddresses = uint64_t{1} << 42;  // more than any host and device have together
constexpr uint32_t kNoPage = UINT32_MAX;

class ManagedAllocator : public BaselineAllocator {
 public:
  using BaselineAllocator::BaselineAllocator;

  bool Take(uint32_t block, uint64_t bytes, uint16_t) override {
    bytes = AlignUp(bytes, kBlockAlignment);
    const std::optional<uint64_t> offset = free_.TakeBestFit(bytes);
    if (!offset) return false;
    if (places_.size() <= block) places_.resize(size_t{block} + 1);
    places_[block] = {*offset, bytes};
    Allocated(bytes);
    const Span pages = PagesOf(block);
    if (pages_.size() < pages.end) pages_.resize(pages.end);
    for (uint32_t page = pages.begin; page < pages.end; ++page) ++pages_[page].blocks;
    return true;
  }

  void Give(uint32_t block) override {
    const Span pages = PagesOf(block);
    for (uint32_t page = pages.begin; page < pages.end; ++page) {
      if (--pages_[page].blocks > 0) continue;
      if (pages_[page].home == Home::kDevice) Leave(page);
      pages_[page].home = Home::kNowhere;
    }
    Freed(places_[block].bytes);
    free_.Give(places_[block].offset, places_[block].bytes);
  }

  void Touch(uint32_t block) override {
    const Span pages = PagesOf(block);
    for (uint32_t page = pages.begin; page < pages.end; ++page) {
      if (page == newest_) continue;
      if (pages_[page].home == Home::kDevice) {
        Unlink(page);
        Link(page);
      } else {
        Fault(page);
      }
    }
  }

 private:
  enum class Home : uint8_t { kNowhere, kHost, kDevice };
  struct Page {
    Home home = Home::kNowhere;
    uint32_t blocks = 0;  // that live on it
    // Neighbours among those on the device, by when they were last named.
    uint32_t older = kNoPage, newer = kNoPage;
  };
  struct Place {
    uint64_t offset = 0, bytes = 0;
  };
  struct Span {
    uint32_t begin, end;
  };

  Span PagesOf(uint32_t block) const {
    const Place& place = places_[block];
    return {uint32_t(place.offset / kPage),
            uint32_t((place.offset + place.bytes + kPage - 1) / kPage)};
  }

  // Where even the last page finds no room the work reads the host's memory in place.
  void Fault(uint32_t page) {
    if (pages_[page].home == Home::kHost) counts_.moved_in += kPage;
    while (!Reserve(kPage, 1)) {
      if (oldest_ == kNoPage) {
        pages_[page].home = Home::kHost;
        return;
      }
      Evict();
    }
    pages_[page].home = Home::kDevice;
    Link(page);
  }

  void Evict() {
    const uint32_t page = oldest_;
    Leave(page);
    pages_[page].home = Home::kHost;
    counts_.moved_out += kPage;
  }

  void Leave(uint32_t page) {
    Unlink(page);
    Release(kPage, 1);
  }

  void Link(uint32_t page) {
    pages_[page].older = newest_;
    pages_[page].newer = kNoPage;
    (newest_ == kNoPage ? oldest_ : pages_[newest_].newer) = page;
    newest_ = page;
  }

  void Unlink(uint32_t page) {
    const auto [older, newer] = std::pair(pages_[page].older, pages_[page].newer);
    (older == kNoPage ? oldest_ : pages_[older].newer) = newer;
    (newer == kNoPage ? newest_ : pages_[newer].older) = older;
  }

  FreeRanges free_{kAddresses};
  std::vector<Place> places_;  // by block
  std::vector<Page> pages_;
  uint32_t oldest_ = kNoPage, newest_ = kNoPage;
};

}  // namespace

std::unique_ptr<BaselineAllocator> MakeManagedAllocator(DeviceMemory& device) {
  return std::make_unique<ManagedAllocator>(device);
}

}  // namespace ebt::plan
