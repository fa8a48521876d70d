// What claims to hold blocks, as the conformance suite drives it.
#ifndef EBBTIDE_TESTS_UNIT_CONFORMANCE_SUBJECTS_H_
#define EBBTIDE_TESTS_UNIT_CONFORMANCE_SUBJECTS_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/units.h"
#include "src/driver/driver_api.h"
#include "src/memory/arena.h"
#include "src/memory/page_pool.h"
#include "src/memory/stream_ledger.h"
#include "src/tier/managed.h"
#include "src/tier/swap.h"
#include "tests/unit/conformance_faults.h"

namespace ebt::test {

// The least that VMM has, and a page of managed memory in the simulated driver.
inline constexpr uint64_t kSlab = 2 * kMiB;
// Of the arena that the blocks lie in.
inline constexpr size_t kSlabs = 6;

class Subject {
 public:
  virtual ~Subject() = default;

  virtual memory::Arena& blocks() = 0;
  // A device arena in whose places the blocks come to lie for a while; NULL: there is none.
  virtual memory::Arena* neighbours() { return nullptr; }
  virtual memory::StreamLedger& ledger() = 0;

  // Around each piece of work that uses a part of `blocks`.
  virtual void Touch(uint64_t, uint64_t, CUstream) {}
  virtual void Touched(uint64_t, uint64_t, CUstream) {}
  // A place of `neighbours` was found occupied.
  virtual bool MakeRoom(uint64_t, uint64_t) { return false; }
  // Something that moves bytes and must not change any; `choice` is random.
  virtual void Move(uint64_t choice, CUstream stream) = 0;
  // Everything on the device has finished and no thread but the caller's works with the subject.
  virtual void GiveMemoryBack() {}
};

// Chunks of `arena` that nobody uses lose their memory, but for those that `keep` names.
template <typename Keep>
void TrimArena(memory::Arena& arena, memory::MappedRange& range, Keep keep) {
  arena.SetAllIdle();
  range.ReleaseChunks([&](uint64_t offset, uint64_t bytes) {
    return !keep(offset) && arena.IsFree(offset, bytes);
  });
}

// Plain device memory.
class ReferenceSubject : public Subject {
 public:
  static constexpr const char* kName = "reference";

  // NULL: the driver refused something.
  static std::unique_ptr<Subject> Create(const DriverApi& driver, CUcontext) {
    std::unique_ptr<ReferenceSubject> made(new ReferenceSubject(driver));
    auto range = memory::MappedRange::Reserve(made->pool_, kSlabs * kSlab, kSlab);
    if (!range.ok()) return nullptr;
    made->range_ = range->get();
    made->arena_ = std::make_unique<memory::Arena>(*std::move(range), made->ledger_);
    return made;
  }
  memory::Arena& blocks() override { return *arena_; }
  memory::StreamLedger& ledger() override { return ledger_; }
  void Move(uint64_t, CUstream) override {}
  void GiveMemoryBack() override {
    TrimArena(*arena_, *range_, [](uint64_t) { return false; });
  }

 private:
  explicit ReferenceSubject(const DriverApi& driver) : pool_(driver, 0, 0), ledger_(driver) {}

  memory::PagePool pool_;
  memory::StreamLedger ledger_;
  memory::MappedRange* range_ = nullptr;
  std::unique_ptr<memory::Arena> arena_;
};

// Managed memory with fetches and evictions.
class ManagedSubject : public Subject {
 public:
  static constexpr const char* kName = "managed";

  static std::unique_ptr<Subject> Create(const DriverApi& driver, CUcontext context) {
    auto range = tier::ManagedRange::Create(driver, 0, kSlabs * kSlab);
    if (!range.ok()) return nullptr;
    std::unique_ptr<ManagedSubject> made(new ManagedSubject(driver));
    made->prefetcher_ =
        std::make_unique<tier::Prefetcher>(driver, context, 0, **range, &ThreadGuard);
    made->base_ = (*range)->base();
    made->arena_ = std::make_unique<memory::Arena>(*std::move(range), made->ledger_);
    return made;
  }
  ~ManagedSubject() override {
    prefetcher_.reset();
    // The range is for the life of a process; here many come one after the other.
    cuCtxSynchronize();
    cuMemFree(base_);
  }
  memory::Arena& blocks() override { return *arena_; }
  memory::StreamLedger& ledger() override { return ledger_; }
  void Move(uint64_t choice, CUstream stream) override {
    using Direction = tier::Prefetcher::Direction;
    const uint64_t first = (choice >> 8) % kSlabs;
    const uint64_t slabs = 1 + (choice >> 16) % (kSlabs - first);
    prefetcher_->Request(choice % 2 == 0 ? Direction::kFetch : Direction::kEvict, first * kSlab,
                         slabs * kSlab, stream);
  }

 private:
  explicit ManagedSubject(const DriverApi& driver) : ledger_(driver) {}

  memory::StreamLedger ledger_;
  CUdeviceptr base_ = 0;
  std::unique_ptr<memory::Arena> arena_;
  std::unique_ptr<tier::Prefetcher> prefetcher_;
};

// Slabs that are swapped between the host and places of a device arena, two to a place.
class SwapSubject : public Subject {
 public:
  static constexpr const char* kName = "swap";

  static std::unique_ptr<Subject> Create(const DriverApi& driver, CUcontext) {
    std::unique_ptr<SwapSubject> made(new SwapSubject(driver));
    auto range = memory::MappedRange::Reserve(made->pool_, kPlaces * kSlab, kSlab);
    if (!range.ok()) return nullptr;
    made->range_ = range->get();
    made->device_ = std::make_unique<memory::Arena>(*std::move(range), made->ledger_);
    tier::SwapOptions options{.slab_bytes = kSlab, .stays = {}, .guard = &ThreadGuard};
    for (size_t slab = 0; slab < kSlabs; ++slab) options.stays.push_back(slab / 2 * kSlab);
    auto engine =
        tier::SwapEngine::Create(driver, *made->device_, *made->range_, made->ledger_, options);
    if (!engine.ok()) return nullptr;
    made->engine_ = engine->get();
    made->arena_ = std::make_unique<memory::Arena>(*std::move(engine), made->ledger_);
    return made;
  }
  memory::Arena& blocks() override { return *arena_; }
  memory::Arena* neighbours() override { return device_.get(); }
  memory::StreamLedger& ledger() override { return ledger_; }
  void Touch(uint64_t offset, uint64_t bytes, CUstream stream) override {
    engine_->Touch(offset, bytes, stream, false);
  }
  void Touched(uint64_t offset, uint64_t bytes, CUstream stream) override {
    engine_->Touched(offset, bytes, stream, false);
  }
  bool MakeRoom(uint64_t offset, uint64_t bytes) override {
    return engine_->MakeRoom(offset, bytes);
  }
  void Move(uint64_t choice, CUstream stream) override {
    const size_t slab = (choice >> 16) % kSlabs;
    const uint64_t rare = choice >> 32;
    switch (choice % 8) {
      case 0:
      case 1:
      case 2:  // as a plan has it: the one goes and the other comes
        engine_->Evict(slab ^ 1, stream);
        return engine_->Fetch(slab, stream);
      case 3:
        return engine_->Fetch(slab, stream);
      case 4:
        return engine_->Evict(slab, stream);
      case 5: {
        using Direction = tier::Mover::Direction;
        tier::RightOfWay& way = engine_->application(rare % 2 ? Direction::kIn : Direction::kOut);
        return way.End(way.Begin(stream), stream, false);
      }
      case 6:
        engine_->MakeRoom((choice >> 24) % kPlaces * kSlab + rare % kSlab, 1 + rare % (2 * kSlab));
        return;
      default:
        if (rare % 64 == 0) engine_->Pin(slab * kSlab + rare % kSlab, 1);
        if (rare % 8 == 1) engine_->Counters();
        if (rare % 16 == 2) engine_->RenewAccess();
    }
  }
  void GiveMemoryBack() override {
    TrimArena(*device_, *range_, [this](uint64_t offset) { return engine_->Backs(offset); });
  }

 private:
  // One more than the slabs' stays.
  static constexpr size_t kPlaces = kSlabs / 2 + 1;

  explicit SwapSubject(const DriverApi& driver) : pool_(driver, 0, 0), ledger_(driver) {}

  memory::PagePool pool_;
  memory::StreamLedger ledger_;
  memory::MappedRange* range_ = nullptr;
  std::unique_ptr<memory::Arena> device_;
  tier::SwapEngine* engine_ = nullptr;
  std::unique_ptr<memory::Arena> arena_;
};

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_UNIT_CONFORMANCE_SUBJECTS_H_
