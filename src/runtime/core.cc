// The core's C face: core_api.h implemented by the engine. Nothing thrown leaves this file.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "hooks/core_api.h"
#include "src/base/log.h"
#include "src/runtime/engine.h"

namespace {

using ebt::runtime::Engine;

Engine* g_engine = nullptr;
std::atomic<bool> g_broken{false};

// Runs `body` also when an earlier one threw: what has to do with memory that is served already
// cannot be left.
template <typename Result, typename Body>
Result Caught(Result otherwise, Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    if (!g_broken.exchange(true))
      ebt::WriteLogLine("out of memory inside Ebbtide: the program runs on without it");
    return otherwise;
  }
}

// Runs `body` unless an earlier one threw: then nothing new is begun.
template <typename Result, typename Body>
Result Shielded(Result otherwise, Body&& body) noexcept {
  return g_broken.load(std::memory_order_relaxed) ? otherwise : Caught(otherwise, body);
}

template <typename Body>
void Shielded(Body&& body) noexcept {
  Shielded(0, [&] {
    body();
    return 0;
  });
}

int Alloc(const ebt_alloc* request, CUdeviceptr* ptr, CUresult* result) {
  return Shielded(0, [&]() -> int {
    ebt::replay::Replayer* replayer = g_engine->replayer();
    return replayer && replayer->Alloc(*request, ptr, result);
  });
}

void Allocated(const ebt_alloc* request, CUdeviceptr ptr) {
  Shielded([&] {
    if (auto* recorder = g_engine->recorder()) recorder->Allocated(*request, ptr);
    if (auto* replayer = g_engine->replayer()) replayer->Native(*request, ptr);
  });
}

void AllocFailed(const ebt_alloc* request, CUresult result) {
  Shielded([&] {
    if (auto* recorder = g_engine->recorder()) recorder->Refused(*request, result);
    if (auto* replayer = g_engine->replayer()) replayer->Refused(*request, result);
  });
}

// Blocks of ours must be taken back even after something broke, so this one is not switched off.
int Free(CUdeviceptr ptr, CUstream stream, int ordered, CUresult* result) {
  try {
    if (auto* recorder = g_engine->recorder()) recorder->Freed(ptr, stream, ordered != 0);
    auto* replayer = g_engine->replayer();
    return replayer && replayer->Free(ptr, stream, ordered != 0, result);
  } catch (...) {
    if (!g_engine->replayer()) return 0;
    *result = CUDA_SUCCESS;  // the block leaks
    return 1;
  }
}

int Launch(const ebt_launch* launch) {
  return Caught(0, [&]() -> int {
    if (auto* replayer = g_engine->replayer()) return replayer->Launch(*launch);
    if (auto* recorder = g_engine->recorder()) recorder->Launched(*launch);
    return 0;
  });
}

int Copy(const ebt_copy* copy) {
  return Caught(0, [&]() -> int {
    if (auto* replayer = g_engine->replayer()) return replayer->Copy(*copy);
    if (auto* recorder = g_engine->recorder()) recorder->Copied(*copy);
    return 0;
  });
}

int Copies(const void* batch, size_t count,
           void (*copy_at)(const void* batch, size_t index, ebt_copy* out)) {
  return Caught(0, [&]() -> int {
    const auto copy = [&](size_t index) {
      ebt_copy one{};
      copy_at(batch, index, &one);
      return one;
    };
    if (auto* replayer = g_engine->replayer()) return replayer->Copies(count, copy);
    auto* recorder = g_engine->recorder();
    for (size_t i = 0; recorder && i < count; ++i) recorder->Copied(copy(i));
    return 0;
  });
}

void Touched() {
  Caught(0, [&] {
    if (auto* replayer = g_engine->replayer()) replayer->Touched();
    return 0;
  });
}

int MemInfo(size_t* free_bytes, size_t* total_bytes, CUresult* result) {
  return Shielded(0, [&]() -> int {
    auto* replayer = g_engine->replayer();
    return replayer && replayer->MemInfo(free_bytes, total_bytes, result);
  });
}

int AddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr ptr, CUresult* result) {
  return Shielded(0, [&]() -> int {
    auto* replayer = g_engine->replayer();
    return replayer && replayer->AddressRange(base, bytes, ptr, result);
  });
}

int PointerAttribute(CUpointer_attribute attribute, void* value, CUdeviceptr ptr,
                     CUresult* result) {
  return Shielded(0, [&]() -> int {
    auto* replayer = g_engine->replayer();
    return replayer && replayer->PointerAttribute(attribute, value, ptr, result);
  });
}

int PointerSet(CUpointer_attribute attribute, const void* value, CUdeviceptr ptr,
               CUresult* result) {
  return Shielded(0, [&]() -> int {
    auto* replayer = g_engine->replayer();
    return replayer && replayer->SetPointerAttribute(attribute, value, ptr, result);
  });
}

int ExportBlock(int way, CUdeviceptr ptr, CUresult* result) {
  return Shielded(0, [&]() -> int {
    auto* replayer = g_engine->replayer();
    return replayer && replayer->Export(way, ptr, result);
  });
}

int PoolGet(CUmemoryPool pool, CUmemPool_attribute attribute, void* value, CUresult* result) {
  return Shielded(0, [&]() -> int {
    auto* replayer = g_engine->replayer();
    return replayer && replayer->PoolGet(pool, attribute, value, result);
  });
}

int PoolSet(CUmemoryPool pool, CUmemPool_attribute attribute, void* value, CUresult* result) {
  return Shielded(0, [&]() -> int {
    auto* replayer = g_engine->replayer();
    return replayer && replayer->PoolSet(pool, attribute, value, result);
  });
}

void PoolTrim(CUmemoryPool, size_t) {
  Shielded([&] {
    if (auto* replayer = g_engine->replayer()) replayer->PoolTrim();
  });
}

CUdevice DeviceOf(void* object) {
  return static_cast<CUdevice>(reinterpret_cast<uintptr_t>(object));
}

void ReplayLifecycle(ebt::replay::Replayer& replayer, int what, void* object, const void* detail) {
  switch (what) {
    case EBT_STREAM_DESTROY:
      return replayer.StreamDestroyed(static_cast<CUstream>(object));
    case EBT_CONTEXT_DESTROY:
      return replayer.ContextGone(static_cast<CUcontext>(object));
    case EBT_PRIMARY_RESET:
      return replayer.DeviceReset(DeviceOf(object));
    case EBT_PRIMARY_RELEASE:
      return replayer.PrimaryReleasing(DeviceOf(object));
    case EBT_PRIMARY_RELEASED:
      return replayer.PrimaryReleased(DeviceOf(object));
    case EBT_CAPTURE_BEGIN:
      return replayer.CaptureBegun(static_cast<CUstream>(object));
    case EBT_CAPTURE_END:
      return replayer.CaptureEnded(static_cast<CUstream>(object));
    case EBT_GRAPH_LAUNCH:  // counts as one launch, as it does in a recording
      return replayer.GraphLaunch(static_cast<CUstream>(const_cast<void*>(detail)));
    case EBT_ADDRESS_TAKEN:
      return replayer.AddressTaken(reinterpret_cast<CUdeviceptr>(object),
                                   static_cast<const char*>(detail));
    case EBT_KERNEL_NODE:
      return replayer.NodeMade(*static_cast<const ebt_launch*>(detail));
    case EBT_COPY_NODE:
      return replayer.NodeMade(*static_cast<const ebt_copy*>(detail));
    case EBT_POOL_CREATE:
      return replayer.PoolCreated(static_cast<CUmemoryPool>(object),
                                  *static_cast<const CUmemPoolProps*>(detail));
    case EBT_PEER_CONTEXT:
      return replayer.PeerEnabled(static_cast<CUcontext>(object));
    case EBT_POOL_ACCESS:
      return replayer.PoolAccess(static_cast<CUmemoryPool>(object),
                                 *static_cast<const CUmemAccessDesc*>(detail));
    case EBT_POOL_DESTROY:
      return replayer.PoolDestroyed(static_cast<CUmemoryPool>(object));
    default:
      return;
  }
}

void RecordLifecycle(ebt::record::Recorder& recorder, int what, void* object, const void* detail) {
  switch (what) {
    case EBT_STREAM_DESTROY:
      return recorder.StreamDestroyed(static_cast<CUstream>(object));
    case EBT_CONTEXT_DESTROY:  // a primary context is not destroyed by its handle
      if (!g_engine->IsPrimary(static_cast<CUcontext>(object)))
        recorder.ContextGone(static_cast<CUcontext>(object));
      return;
    case EBT_PRIMARY_RESET:
      if (CUcontext primary = g_engine->Primary(DeviceOf(object))) recorder.ContextGone(primary);
      return;
    case EBT_PRIMARY_RELEASE:
      recorder.ContextMayEnd();
      return g_engine->ReleasingPrimary(DeviceOf(object));
    case EBT_PRIMARY_RELEASED:
      return recorder.ContextMayHaveEnded(g_engine->PrimaryThatEnded(DeviceOf(object)));
    case EBT_GRAPH_LAUNCH:
      return recorder.GraphLaunched(object, static_cast<CUstream>(const_cast<void*>(detail)));
    case EBT_CAPTURE_BEGIN:
      return recorder.CaptureBegun();
    case EBT_CAPTURE_END:
      return recorder.CaptureEnded();
    case EBT_ADDRESS_TAKEN:
      return recorder.Kept(reinterpret_cast<CUdeviceptr>(object));
    case EBT_KERNEL_NODE:
      return recorder.Kept(*static_cast<const ebt_launch*>(detail));
    case EBT_COPY_NODE:
      return recorder.Kept(*static_cast<const ebt_copy*>(detail));
    case EBT_BLOCK_EXPORTED:
      return recorder.Exported(reinterpret_cast<CUdeviceptr>(object));
    case EBT_HANDLE_RELEASED:
      return recorder.Freed(reinterpret_cast<CUdeviceptr>(object), nullptr, false);
    default:
      return;
  }
}

bool EndsFunctions(int what) {
  return what == EBT_FUNCTIONS_END || what == EBT_CONTEXT_DESTROY || what == EBT_PRIMARY_RESET ||
         what == EBT_PRIMARY_RELEASE;
}

void Lifecycle(int what, void* object, const void* detail) {
  if (EndsFunctions(what)) ebt::FunctionTable::HandlesMayEnd();
  Caught(0, [&] {
    if (auto* replayer = g_engine->replayer()) ReplayLifecycle(*replayer, what, object, detail);
    if (auto* recorder = g_engine->recorder()) RecordLifecycle(*recorder, what, object, detail);
    return 0;
  });
}

void Mark(int what, const char* name) {
  Shielded([&] {
    if (auto* recorder = g_engine->recorder()) recorder->Marked(what, name);
  });
}

int Statistics(void* out, size_t size) {
  return Shielded(1, [&]() -> int {
    const ebbtide_statistics statistics = g_engine->Statistics();
    std::memcpy(out, &statistics, std::min(size, sizeof(statistics)));
    return 0;
  });
}

void Forked() {
  Shielded([&] { g_engine->AfterFork(); });
}

void Exiting() {
  Shielded([&] { g_engine->Exiting(); });
}

const ebt_core kCore = {
    .abi = EBT_CORE_ABI,
    .size = sizeof(ebt_core),
    .active = 1,
    .alloc = &Alloc,
    .allocated = &Allocated,
    .alloc_failed = &AllocFailed,
    .free = &Free,
    .launch = &Launch,
    .copy = &Copy,
    .copies = &Copies,
    .touched = &Touched,
    .mem_info = &MemInfo,
    .address_range = &AddressRange,
    .pointer_attribute = &PointerAttribute,
    .pointer_set = &PointerSet,
    .export_block = &ExportBlock,
    .pool_get = &PoolGet,
    .pool_set = &PoolSet,
    .pool_trim = &PoolTrim,
    .lifecycle = &Lifecycle,
    .mark = &Mark,
    .statistics = &Statistics,
    .forked = &Forked,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ebt_core* ebt_core_open(
    const ebt_front* front) {
  if (front->abi != EBT_CORE_ABI) return nullptr;
  return Shielded(static_cast<const ebt_core*>(nullptr), [&]() -> const ebt_core* {
    g_engine = Engine::Open(*front);
    if (!g_engine) return nullptr;
    std::atexit(&Exiting);
    return &kCore;
  });
}
