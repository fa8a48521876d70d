// The table, expanded: every body instantiated, every symbol exported.
#include "hooks/alloc.h"
#include "hooks/async.h"
#include "hooks/context.h"
#include "hooks/copy.h"
#include "hooks/front.h"
#include "hooks/graph.h"
#include "hooks/launch.h"
#include "hooks/query.h"
#include "hooks/resolve.h"
#include "hooks/tensor.h"
#include "hooks/vmm.h"

namespace ebt::front {

const Row kRows[kSlots] = {
#define EBT_HOOK(symbol, base, since, mode, family, body) \
  {#symbol, #base, since, Mode::mode,                     \
   reinterpret_cast<void*>(&body<Slot::symbol##_slot, Mode::mode>)},
#include "hooks/cuda_hooks.def"
#undef EBT_HOOK
};

}  // namespace ebt::front

// An exported symbol is a jump to its body. It is made in assembly because cuda.h declares many
// of these names with the signature of another version, or as macros.
#define EBT_HOOK(symbol, base, since, mode, family, body)                                \
  extern "C" __attribute__((visibility("hidden"), used)) void* const ebt_body_##symbol = \
      reinterpret_cast<void*>(                                                           \
          &ebt::front::body<ebt::front::Slot::symbol##_slot, ebt::front::Mode::mode>);   \
  asm(".text\n.globl " #symbol "\n.type " #symbol ", @function\n" #symbol                \
      ":\n  endbr64\n  jmp "                                                             \
      "*ebt_body_" #symbol "(%rip)\n.size " #symbol ", .-" #symbol "\n");
#include "hooks/cuda_hooks.def"
#undef EBT_HOOK
