// Asks for every function of the table in one way, calls what it is given with nothing but zeros,
// and prints a line for each request: what was asked for, the export of the simulated driver that
// the call reached, the result, and whose code was given. Every hooked function is made to fail, so
// that no call has an effect. Linked to the driver with FRONT_LINKED.
//
//   front_matrix WAY      dlsym, default, next, proc1, proc2; linked
#include "tests/preload/front_matrix.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <set>

namespace {

using ebt::test::Driver;
using ebt::test::kTable;
using ebt::test::TableRow;

#ifdef FRONT_LINKED
#define EBT_HOOK(symbol, base, since, mode, family, body, service) \
  extern "C" __attribute__((weak)) void symbol();
#include "hooks/cuda_hooks.def"
#undef EBT_HOOK
extern "C" int cuInit(unsigned);

// By the table's order; NULL where neither the driver nor a preloaded library has it.
void* (*const kLinked[])() = {
#define EBT_HOOK(symbol, base, since, mode, family, body, service) \
  [] { return reinterpret_cast<void*>(&symbol); },
#include "hooks/cuda_hooks.def"
#undef EBT_HOOK
};

void AskLinked(const Driver& driver) {
  // A library of which only weak symbols are wanted is left out by the linker.
  static int (*volatile keeps_the_driver)(unsigned) = &cuInit;
  static_cast<void>(keeps_the_driver);
  for (size_t i = 0; i < std::size(kTable); ++i)
    driver.CallAndPrint(kTable[i].symbol, kTable[i].base, kLinked[i]());
}
#endif

void AskForSymbols(const Driver& driver, void* handle) {
  for (const TableRow& row : kTable)
    driver.CallAndPrint(row.symbol, row.base, dlsym(handle, row.symbol));
}

template <typename Ask>
void AskForBases(const Driver& driver, Ask&& ask) {
  std::set<std::string> bases;
  for (const TableRow& row : kTable) bases.insert(row.base);
  for (const std::string& base : bases) {
    for (const int version : ebt::test::VersionsOfTheTable()) {
      // Both flags at once are no question.
      for (const uint64_t flags : {0, 1, 2, 3}) {
        void* found = nullptr;
        ask(base.c_str(), &found, version, flags);
        driver.CallAndPrint(base + "@" + std::to_string(version) + "/" + std::to_string(flags),
                            base, found);
      }
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  const char* way = count > 1 ? arguments[1] : "";
  const Driver driver;
  if (!driver.is_there()) return 98;
  driver.FailEveryHookedFunction();
#ifdef FRONT_LINKED
  if (strcmp(way, "linked") == 0) AskLinked(driver);
#endif
  if (strcmp(way, "dlsym") == 0) AskForSymbols(driver, driver.handle());
  if (strcmp(way, "default") == 0) AskForSymbols(driver, RTLD_DEFAULT);
  if (strcmp(way, "next") == 0) AskForSymbols(driver, RTLD_NEXT);
  if (strcmp(way, "proc1") == 0) {
    AskForBases(driver, reinterpret_cast<int (*)(const char*, void**, int, uint64_t)>(
                            dlsym(driver.handle(), "cuGetProcAddress")));
  }
  if (strcmp(way, "proc2") == 0) {
    const auto ask = reinterpret_cast<int (*)(const char*, void**, int, uint64_t, void*)>(
        dlsym(driver.handle(), "cuGetProcAddress_v2"));
    AskForBases(driver, [ask](const char* base, void** found, int version, uint64_t flags) {
      return ask(base, found, version, flags, nullptr);
    });
  }
  driver.PrintTotals();
  return 0;
}
