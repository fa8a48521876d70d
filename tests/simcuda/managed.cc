// Advice and prefetches of managed memory.
#include "api.h"
#include "state.h"

namespace sim {
namespace {

constexpr Ns kPrefetchOverhead = Microseconds(75);
constexpr double kPrefetchIn = 50, kPrefetchOut = 12;  // GB/s

// A device's ordinal, ManagedPage::kHost, or kUnpopulated when it is neither.
int Target(CUmemLocation location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    const bool known = location.id >= 0 && location.id < static_cast<int>(S().devices.size());
    return known ? location.id : ManagedPage::kUnpopulated;
  }
  return location.type == CU_MEM_LOCATION_TYPE_NONE ? ManagedPage::kUnpopulated
                                                    : ManagedPage::kHost;
}

CUmemLocation LocationOf(CUdevice device) {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

void DropCopies(ManagedPage* page, uint64_t bytes) {
  for (const auto& device : S().devices) {
    if ((page->copies >> device->ordinal & 1) != 0) GiveMemory(device.get(), bytes);
  }
  page->copies = 0;
}

void Advise(ManagedPage* page, uint64_t bytes, CUmem_advise advice, int target) {
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
      page->read_mostly = true;
      break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      page->read_mostly = false;
      DropCopies(page, bytes);
      break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      page->preferred = target;
      break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      page->preferred = ManagedPage::kUnpopulated;
      break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      if (target >= 0) page->accessed_by |= uint32_t{1} << target;
      break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      if (target >= 0) page->accessed_by &= ~(uint32_t{1} << target);
      break;
  }
}

// Moves one page; returns the bytes that crossed the link.
uint64_t MovePage(Region* region, size_t index, int target) {
  ManagedPage& page = region->pages[index];
  const uint64_t bytes = PageBytes(*region, index);
  page.last_prefetch = target;
  if (page.where == target) return 0;
  const bool crosses = page.where != ManagedPage::kUnpopulated;
  if (target == ManagedPage::kHost) {
    if (page.where >= 0) GiveMemory(S().devices[page.where].get(), bytes);
    DropCopies(&page, bytes);
    page.where = target;
    return crosses ? bytes : 0;
  }
  Device* device = S().devices[target].get();
  page.last_use = S().use_counter;
  if ((page.copies >> target & 1) != 0) return 0;
  if (!TakeMemory(device, bytes)) return 0;  // it stays where it is
  if (page.read_mostly && page.where == ManagedPage::kHost) {
    page.copies |= uint32_t{1} << target;
    return bytes;
  }
  if (page.where >= 0) GiveMemory(S().devices[page.where].get(), bytes);
  page.where = target;
  return crosses ? bytes : 0;
}

// Bytes that a prefetch to the host would have to bring out now.
uint64_t BytesToBringOut(const PageRange& range) {
  uint64_t bytes = 0;
  for (size_t i = range.first; i < range.last; ++i) {
    if (range.region->pages[i].where >= 0) bytes += PageBytes(*range.region, i);
  }
  return bytes;
}

Ns Prefetch(const PageRange& range, Device* device, int target) {
  AccessScope access;
  uint64_t moved = 0;
  for (size_t i = range.first; i < range.last; ++i) moved += MovePage(range.region, i, target);
  (target == ManagedPage::kHost ? device->link_out : device->link_in) += moved;
  const Ns overhead = moved == 0 ? 0 : kPrefetchOverhead;
  return overhead + Transfer(moved, target == ManagedPage::kHost ? kPrefetchOut : kPrefetchIn);
}

}  // namespace

CUresult MemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device) {
  return MemAdvise2(address, bytes, advice, LocationOf(device));
}

CUresult MemAdvise2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                    CUmemLocation location) {
  PageRange range;
  if (!FindManaged(address, bytes, &range)) return CUDA_ERROR_INVALID_VALUE;
  const int target = Target(location);
  const bool names_location = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                              advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                              advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  if (names_location && target == ManagedPage::kUnpopulated) return CUDA_ERROR_INVALID_DEVICE;
  if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = range.first; i < range.last; ++i) {
    Advise(&range.region->pages[i], PageBytes(*range.region, i), advice, target);
  }
  return CUDA_SUCCESS;
}

CUresult MemPrefetch(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
  return MemPrefetch2(address, bytes, LocationOf(device), 0, stream);
}

CUresult MemPrefetch2(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags,
                      CUstream handle) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  PageRange range;
  if (flags != 0 || !FindManaged(address, bytes, &range)) return CUDA_ERROR_INVALID_VALUE;
  const int target = Target(location);
  if (target == ManagedPage::kUnpopulated) return CUDA_ERROR_INVALID_DEVICE;
  if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Device* device = stream->context->device;
  const bool out = target == ManagedPage::kHost;
  const Ns blocked = out ? Transfer(BytesToBringOut(range), kPrefetchOut) : 0;
  Work work;
  work.engine = [out] { return out ? Engine::kCopyOut : Engine::kCopyIn; };
  work.duration = [=]() -> Ns {
    PageRange now;  // it may have been freed meanwhile
    return FindManaged(address, bytes, &now) ? Prefetch(now, device, target) : 0;
  };
  Enqueue(stream, std::move(work));
  // As measured: the driver brings pages out on the calling thread.
  BlockThread(blocked);
  return CUDA_SUCCESS;
}

CUresult MemRangeGetAttribute(void* data, size_t size, CUmem_range_attribute attribute,
                              CUdeviceptr address, size_t bytes) {
  PageRange range;
  if (data == nullptr || size < sizeof(int) || !FindManaged(address, bytes, &range)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // What holds for every page of the range, or "none".
  auto common = [&](auto value_of, int none) {
    const int first = value_of(range.region->pages[range.first]);
    for (size_t i = range.first; i < range.last; ++i) {
      if (value_of(range.region->pages[i]) != first) return none;
    }
    return first == ManagedPage::kHost          ? static_cast<int>(CU_DEVICE_CPU)
           : first == ManagedPage::kUnpopulated ? none
                                                : first;
  };
  int* answers = static_cast<int*>(data);
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      answers[0] = common([](const ManagedPage& page) { return page.read_mostly ? 1 : 0; }, 0);
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      answers[0] = common([](const ManagedPage& page) { return page.preferred; }, -2);
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      answers[0] = common([](const ManagedPage& page) { return page.last_prefetch; }, -2);
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      for (size_t i = 0, device = 0; i < size / sizeof(int); ++i) {
        const uint32_t mask = range.region->pages[range.first].accessed_by;
        while (device < S().devices.size() && (mask >> device & 1) == 0) ++device;
        answers[i] = device < S().devices.size() ? static_cast<int>(device++) : -2;
      }
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace sim
