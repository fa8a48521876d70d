#include "src/driver/launch_words.h"

namespace ebt {

std::pair<const void*, size_t> ExtraBuffer(void** extra) {
  const void* buffer = nullptr;
  size_t bytes = 0;
  // A short list of pairs; the bound only guards against one without an end.
  for (int i = 0; i < 16 && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[i + 1];
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1] != nullptr) {
      bytes = *static_cast<size_t*>(extra[i + 1]);
    }
  }
  return {buffer, bytes};
}

}  // namespace ebt
