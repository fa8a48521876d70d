#include "state.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "api.h"
#include "pool.h"

namespace sim {
namespace {

uint64_t MemoryFromEnvironment() {
  constexpr uint64_t kDefault = uint64_t{4} << 30;
  const char* text = getenv("SIMCUDA_MEMORY");
  if (text == nullptr || *text == '\0') return kDefault;
  char* unit = nullptr;
  uint64_t value = strtoull(text, &unit, 10);
  if (strcmp(unit, "KiB") == 0) return value << 10;
  if (strcmp(unit, "MiB") == 0) return value << 20;
  if (strcmp(unit, "GiB") == 0) return value << 30;
  if (*unit == '\0' && value > 0) return value;
  dprintf(STDERR_FILENO, "simcuda: SIMCUDA_MEMORY=%s cannot be read, 4GiB is taken\n", text);
  return kDefault;
}

int DevicesFromEnvironment() {
  const char* text = getenv("SIMCUDA_DEVICES");
  int count = text == nullptr ? 1 : atoi(text);
  const bool is_number = text == nullptr || (*text >= '0' && *text <= '9');
  if (is_number && count >= 0 && count <= 16) return count;
  dprintf(STDERR_FILENO, "simcuda: SIMCUDA_DEVICES=%s is not 0 to 16, 1 is taken\n", text);
  return 1;
}

State* MakeState() {
  auto* state = new State();
  const int count = DevicesFromEnvironment();
  const uint64_t memory = MemoryFromEnvironment();
  for (int i = 0; i < count; ++i) {
    auto device = std::make_unique<Device>();
    device->ordinal = i;
    device->capacity = memory;
    device->default_pool = std::make_unique<Pool>();
    device->default_pool->device = device.get();
    device->default_pool->is_default = true;
    device->pool = device->default_pool.get();
    state->pools.insert(device->pool);
    state->devices.push_back(std::move(device));
  }
  return state;
}

}  // namespace

State& S() {
  static State* state = MakeState();
  return *state;
}

Stream* NewStream(Context* context, bool blocking, int priority) {
  auto stream = std::make_unique<Stream>();
  stream->context = context;
  stream->blocking = blocking;
  stream->priority = priority;
  stream->id = S().next_id++;
  S().streams.push_back(std::move(stream));
  return S().streams.back().get();
}

Stream* FindStream(CUstream handle) {
  Context* context = CurrentContext();
  if (context == nullptr) return nullptr;
  if (handle == nullptr) handle = NullStream();
  if (handle == CU_STREAM_LEGACY) return context->legacy;
  if (handle == CU_STREAM_PER_THREAD) {
    Stream*& own = context->per_thread[std::this_thread::get_id()];
    if (own == nullptr) own = NewStream(context, true, 0);
    return own;
  }
  for (const auto& stream : S().streams) {
    if (stream.get() == reinterpret_cast<Stream*>(handle) && !stream->destroyed) {
      return stream.get();
    }
  }
  return nullptr;
}

Event* FindEvent(CUevent handle) {
  Event* event = reinterpret_cast<Event*>(handle);
  return S().events.count(event) != 0 ? event : nullptr;
}

}  // namespace sim
