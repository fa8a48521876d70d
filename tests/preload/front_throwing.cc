// An application's C++ library, with an exception of its own.
#include <stdexcept>
#include <string>

namespace {

struct Guarded {
  int& count;
  ~Guarded() { ++count; }
};

__attribute__((noinline)) void Throw(int& count) {
  const Guarded guarded{count};
  throw std::runtime_error("caught " + std::to_string(count));
}

}  // namespace

// 0: each of them was caught, and what lay between was cleaned up.
extern "C" __attribute__((visibility("default"))) int ThrowAndCatch() {
  int cleaned = 0;
  for (int i = 0; i < 3; ++i) {
    try {
      Throw(cleaned);
      return 11;
    } catch (const std::exception& caught) {
      if (caught.what() != "caught " + std::to_string(i)) return 12;
    }
  }
  return cleaned == 3 ? 0 : 13;
}
