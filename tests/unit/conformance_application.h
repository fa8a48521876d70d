// A program that does random things with a subject's blocks, and knows what every byte of each
// must be. It is a correct program: it orders its own work on several streams, uses a block only
// between its allocation and its end, and makes its own calls to the driver.
#ifndef EBBTIDE_TESTS_UNIT_CONFORMANCE_APPLICATION_H_
#define EBBTIDE_TESTS_UNIT_CONFORMANCE_APPLICATION_H_

#include <cuda.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/conformance_order.h"
#include "tests/unit/conformance_subjects.h"

namespace ebt::test {

// Of the current context.
struct ConformanceKernels {
  CUfunction fill = nullptr, axpy = nullptr, mix = nullptr;
};

struct ApplicationOptions {
  uint64_t seed = 0;
  // One of several threads, each of which has its own part of every slab.
  size_t part = 0, parts = 1;
  // The subject may refuse a block.
  bool refusals = false;
};

class Application {
 public:
  // The calling thread, the only one that uses it, has a current context.
  Application(Subject& subject, const ConformanceKernels& kernels,
              const ApplicationOptions& options)
      : subject_(subject),
        kernels_(kernels),
        options_(options),
        state_(Mix(options.seed + options.part)),
        order_(MakeStreams()),
        slots_(options.parts == 1 ? 14 : 8) {
    if (subject.neighbours() != nullptr) {
      for (int i = 0; i < 2; ++i) slots_.push_back({.arena = subject.neighbours()});
    }
    for (Block& block : slots_)
      if (!block.arena) block.arena = &subject.blocks();
    for (float** buffer : {&read_, &upload_}) {
      void* memory = nullptr;
      order_.Require(cuMemAllocHost(&memory, kBuffer * sizeof(float)));
      *buffer = static_cast<float*>(memory);
    }
    order_.Require(cuMemAllocManaged(&ballast_, kBallast, CU_MEM_ATTACH_GLOBAL));
    expected_.resize(kBuffer);
  }
  ~Application() {
    cuMemFree(ballast_);
    for (float* buffer : {read_, upload_}) cuMemFreeHost(buffer);
  }
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;

  // So many operations, or until something is wrong.
  void Run(uint64_t operations) {
    for (uint64_t i = 0; i < operations && failure_.empty(); ++i) {
      Step();
      if (order_.result() != CUDA_SUCCESS)
        Fail(absl::StrCat("the program's own call failed: ", order_.result()));
    }
  }
  // Reads all that lives and gives it back.
  void Finish() {
    for (size_t slot = 0; slot < slots_.size() && failure_.empty(); ++slot) {
      if (slots_[slot].content.empty()) continue;
      const size_t size = slots_[slot].content.size();
      for (size_t at = 0; at < size; at += kBuffer / 4)
        Read(slot, at, std::min(size - at, kBuffer / 4), 0);
      FreeIdle(slot);
    }
    Check();
    if (failure_.empty() && order_.result() != CUDA_SUCCESS)
      Fail(absl::StrCat("the program's own call failed: ", order_.result()));
  }

  uint64_t operations() const { return operations_; }
  // The same for the same sequence.
  uint64_t digest() const { return digest_; }
  // Empty, or what was wrong, with all that it takes to see it again.
  const std::string& failure() const { return failure_; }

 private:
  static constexpr size_t kBuffer = 64 * kKiB;  // floats
  static constexpr size_t kMostFloats = 4 * kKiB;
  static constexpr uint64_t kBallast = 2 * kMiB;

  struct Block {
    memory::Arena* arena = nullptr;
    uint64_t offset = 0;         // in its arena
    std::vector<float> content;  // empty: there is no block
    Uses uses;
    uint64_t bytes() const { return content.size() * sizeof(float); }
  };
  // Floats [first, first + count) of a slot's block.
  struct Access {
    size_t slot, first, count;
    bool writes;
  };
  struct Pending {
    size_t at, count, slot, first;
    uint64_t operation;
  };
  struct Record {
    const char* what = nullptr;
    uint64_t operation = 0;
    size_t slot = 0, stream = 0;
    uint64_t offset = 0, bytes = 0;
  };

  uint64_t Random() { return Mix(state_ += 0x9e3779b97f4a7c15); }
  uint64_t Random(uint64_t below) { return Random() % below; }

  std::vector<CUstream> MakeStreams() const {
    std::vector<CUstream> streams(3);
    for (CUstream& stream : streams) cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (options_.part == 0 && options_.seed % 4 == 1) streams.push_back(nullptr);
    if (options_.seed % 16 == 2) streams.push_back(CU_STREAM_PER_THREAD);
    return streams;
  }

  void Note(const char* what, size_t slot, size_t stream, uint64_t offset, uint64_t bytes) {
    records_[noted_++ % records_.size()] = {what, operations_, slot, stream, offset, bytes};
    for (uint64_t value : {operations_, uint64_t{slot}, uint64_t{stream}, offset, bytes})
      digest_ = Mix(digest_ + value);
  }
  void Fail(const std::string& what) {
    if (!failure_.empty()) return;
    failure_ = absl::StrCat(what, "\n  EBT_CONFORMANCE_SEED=", options_.seed, ", part ",
                            options_.part, " of ", options_.parts, "; the last operations:");
    const size_t first = noted_ > records_.size() ? noted_ - records_.size() : 0;
    for (size_t i = first; i < noted_; ++i) {
      const Record& r = records_[i % records_.size()];
      absl::StrAppend(&failure_, "\n  ", r.operation, ": ", r.what, " block ", r.slot, " at ",
                      r.offset, ", ", r.bytes, " bytes, stream ", r.stream);
    }
  }

  // What is drawn does not depend on what the subject answers, so that a seed means the same
  // sequence even where copies are issued at other moments.
  void Step() {
    ++operations_;
    const size_t slot = Random(slots_.size()), stream = Random(order_.size());
    const uint64_t kind = Random(1000), choice = Random();
    if (kind < 120) {
      Note("move", 0, stream, choice, 0);
      return subject_.Move(choice, order_.At(stream));
    }
    if (kind < 140) return order_.Synchronize(stream);
    if (kind < 144) return Check();
    if (kind < 147) return ReplaceStream(stream);
    if (kind < 149) return GiveMemoryBack();
    if (kind < 169) return KeepBusy(stream);
    if (slots_[slot].content.empty()) return Allocate(slot, stream, choice);
    Use(slot, stream, kind % 100, choice);
  }

  void ReplaceStream(size_t stream) {
    const CUstream old = order_.At(stream);
    if (old == nullptr || old == CU_STREAM_PER_THREAD) return;
    Note("stream ends", 0, stream, 0, 0);
    subject_.ledger().StreamDestroyed(old);
    order_.Replace(stream);
  }

  // What is queued behind it runs a third of a millisecond later, so that work which does not
  // wait for it comes first. No byte is copied for that.
  void KeepBusy(size_t stream) {
    Note("keep busy", 0, stream, 0, 0);
    for (CUdevice to : {0, CU_DEVICE_CPU})
      order_.Require(
          SimulatedDriver().fn_cuMemPrefetchAsync(ballast_, kBallast, to, order_.At(stream)));
  }

  void GiveMemoryBack() {
    if (options_.parts > 1) return;
    Note("memory given back", 0, 0, 0, 0);
    Check();
    order_.Require(cuCtxSynchronize());
    subject_.GiveMemoryBack();
  }

  // Near the beginning of this thread's part of a slab. Those of the first part reach over into
  // the slab before.
  uint64_t PlaceIn(const memory::Arena& arena, uint64_t choice) const {
    const uint64_t slab = choice % (arena.size() / kSlab);
    const uint64_t at = slab * kSlab + options_.part * (256 * kKiB);
    const uint64_t before = std::min<uint64_t>(at, 8 * kKiB);
    return at - before + (choice >> 8) % 32 * kBlockAlignment;
  }

  bool Overlaps(const Block& block, uint64_t offset, uint64_t bytes) const {
    return !block.content.empty() && block.offset < offset + AlignUp(bytes, kBlockAlignment) &&
           offset < block.offset + AlignUp(block.bytes(), kBlockAlignment);
  }

  void Allocate(size_t slot, size_t stream, uint64_t choice) {
    using Outcome = memory::Arena::Outcome;
    Block& block = slots_[slot];
    const uint64_t offset = PlaceIn(*block.arena, choice);
    size_t count = 1 + (choice >> 20) % ((choice >> 17) % 8 == 0 ? kMostFloats : kMostFloats / 8);
    // Some reach over more than a whole slab.
    if (options_.parts == 1 && (choice >> 40) % 256 == 0) count += (kSlab + kSlab / 8) / 4;
    const uint64_t bytes = count * sizeof(float);
    if (offset + bytes > block.arena->size()) return;
    const bool idle = (choice >> 48) % 6 == 0;
    const auto take = [&] {
      return idle ? block.arena->TakeIdleAt(offset, bytes)
                  : block.arena->TakeAt(offset, bytes, order_.At(stream));
    };
    Note(idle ? "allocate idle" : "allocate", slot, stream, offset, bytes);
    const bool neighbour = block.arena != &subject_.blocks();
    Outcome outcome = take();
    if (neighbour && outcome == Outcome::kOccupied && subject_.MakeRoom(offset, bytes))
      outcome = take();
    const bool in_use = std::any_of(slots_.begin(), slots_.end(), [&](const Block& other) {
      return other.arena == block.arena && Overlaps(other, offset, bytes);
    });
    if (in_use != (outcome == Outcome::kOccupied) && !options_.refusals && !neighbour)
      return Fail(absl::StrCat("outcome ", static_cast<int>(outcome), " where one's own block is",
                               in_use ? "" : " not"));
    if (outcome != Outcome::kServed) {
      if (outcome != Outcome::kOccupied && !options_.refusals)
        Fail(absl::StrCat("outcome ", static_cast<int>(outcome)));
      return;
    }
    if (in_use) return Fail("a place in use was given away");
    block.offset = offset;
    block.content.resize(count);
    block.uses = {};
    if (!idle) order_.AfterWrite(block.uses, stream);
    Set32(slot, 0, count, stream, static_cast<float>(slot + 1));
  }

  // Work that names some parts of blocks.
  template <typename Queue>
  void Work(const char* what, std::initializer_list<Access> accesses, size_t stream, Queue queue) {
    for (const Access& access : accesses) {
      const Block& block = slots_[access.slot];
      access.writes ? order_.BeforeWrite(block.uses, stream)
                    : order_.BeforeRead(block.uses, stream);
      Note(what, access.slot, stream, block.offset + access.first * sizeof(float),
           access.count * sizeof(float));
    }
    const auto each = [&](auto call) {
      for (const Access& access : accesses) {
        if (slots_[access.slot].arena != &subject_.blocks()) continue;
        (subject_.*call)(slots_[access.slot].offset + access.first * sizeof(float),
                         access.count * sizeof(float), order_.At(stream));
      }
    };
    each(&Subject::Touch);
    // As another thread may, just before the work is queued.
    if (Random(50) == 0) subject_.Move(Random(), order_.At(stream));
    order_.Require(queue(order_.At(stream)));
    each(&Subject::Touched);
    for (const Access& access : accesses)
      if (!access.writes) order_.AfterRead(slots_[access.slot].uses, stream);
    for (const Access& access : accesses)
      if (access.writes) order_.AfterWrite(slots_[access.slot].uses, stream);
  }

  CUdeviceptr Address(size_t slot, size_t first) const {
    const Block& block = slots_[slot];
    return block.arena->base() + block.offset + first * sizeof(float);
  }
  float* Content(size_t slot, size_t first) { return slots_[slot].content.data() + first; }

  void Use(size_t slot, size_t stream, uint64_t kind, uint64_t choice);
  void FreeIn(size_t slot, size_t stream, bool look);
  void FreeIdle(size_t slot);
  void Fill(size_t slot, size_t first, size_t count, size_t stream, float value);
  void Axpy(Access y, Access x, size_t stream, float factor);
  void Multiply(Access out, Access a, Access b, size_t stream);
  void Set8(size_t slot, size_t first, size_t count, size_t stream, uint64_t choice);
  void Set32(size_t slot, size_t first, size_t count, size_t stream, float value);
  void Upload(size_t slot, size_t first, size_t count, size_t stream, uint64_t choice);
  void Copy(Access dst, Access src, size_t stream);
  void Read(size_t slot, size_t first, size_t count, size_t stream);
  void Check();

  Subject& subject_;
  const ConformanceKernels kernels_;
  const ApplicationOptions options_;
  uint64_t state_;
  StreamOrder order_;
  std::vector<Block> slots_;
  float* read_ = nullptr;        // what reads have brought, and
  std::vector<float> expected_;  // what they should have
  size_t read_used_ = 0;
  std::vector<Pending> pending_;
  CUdeviceptr ballast_ = 0;  // managed memory that nobody reads
  float* upload_ = nullptr;
  size_t upload_used_ = 0;
  uint64_t operations_ = 0, digest_ = 0;
  std::array<Record, 48> records_;
  size_t noted_ = 0;
  std::string failure_;
};

}  // namespace ebt::test

#include "tests/unit/conformance_operations.h"

#endif  // EBBTIDE_TESTS_UNIT_CONFORMANCE_APPLICATION_H_
