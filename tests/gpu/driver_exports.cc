#include "tests/gpu/driver_exports.h"

#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <set>
#include <string_view>

namespace ebt::test {
namespace {

// The parts of one library's dynamic section that lead to its symbols.
struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const uint32_t* hash = nullptr;
  const uint32_t* gnu_hash = nullptr;
};

Tables TablesOf(const link_map& map) {
  Tables tables;
  for (const ElfW(Dyn)* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
    // The loader has added the load address to these, save in a dynamic section that is read-only.
    uintptr_t address = entry->d_un.d_ptr;
    if (address < map.l_addr) address += map.l_addr;
    const auto* const at = reinterpret_cast<const void*>(address);
    if (entry->d_tag == DT_SYMTAB) tables.symbols = static_cast<const ElfW(Sym)*>(at);
    if (entry->d_tag == DT_STRTAB) tables.names = static_cast<const char*>(at);
    if (entry->d_tag == DT_HASH) tables.hash = static_cast<const uint32_t*>(at);
    if (entry->d_tag == DT_GNU_HASH) tables.gnu_hash = static_cast<const uint32_t*>(at);
  }
  return tables;
}

// Symbols are not counted anywhere but in the hash tables: one more than the highest index there.
uint32_t SymbolCount(const Tables& tables) {
  if (tables.hash != nullptr) return tables.hash[1];
  if (tables.gnu_hash == nullptr) return 0;
  const uint32_t buckets = tables.gnu_hash[0], first = tables.gnu_hash[1];
  const uint32_t bloom_words = tables.gnu_hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* const bucket = tables.gnu_hash + 4 + bloom_words;
  const uint32_t* const chain = bucket + buckets;
  uint32_t last = 0;
  for (uint32_t i = 0; i < buckets; ++i) last = last > bucket[i] ? last : bucket[i];
  if (last < first) return first;
  // The end of a chain has its lowest bit set.
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

bool IsDriverName(const char* name) {
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

// "cuMemAlloc" of "cuMemAlloc_v2_ptds": what cuGetProcAddress is asked for.
std::string BaseOf(std::string symbol) {
  for (std::string_view suffix : {"_ptsz", "_ptds", "_v2", "_v3", "_v4"}) {
    if (symbol.size() > suffix.size() && symbol.ends_with(suffix))
      symbol.resize(symbol.size() - suffix.size());
  }
  return symbol;
}

using AskV1 = CUresult (*)(const char*, void**, int, cuuint64_t);
using AskV2 = CUresult (*)(const char*, void**, int, cuuint64_t, void*);

constexpr int kVersions[] = {11000, 11020, 11030, 11040, 11070, 12000,
                             12020, 12030, 12050, 12080, 13000, 13010};
constexpr cuuint64_t kFlags[] = {0, 1, 2};

class Comparison {
 public:
  Comparison(void* handle, const DriverExports& exports) : handle_(handle), exports_(exports) {
    for (const auto& [symbol, address] : exports.functions()) {
      addresses_.insert(address);
      bases_.insert(BaseOf(symbol));
    }
  }

  PointerCheck Run() {
    for (const auto& [symbol, address] : exports_.functions()) {
      ++check_.by_dlsym;
      Judge(dlsym(handle_, symbol.c_str()), address, "dlsym " + symbol);
    }
    ByProcAddress<AskV1>("cuGetProcAddress", &check_.by_v1,
                         [](AskV1 ask, auto... question) { return ask(question...); });
    ByProcAddress<AskV2>("cuGetProcAddress_v2", &check_.by_v2,
                         [](AskV2 ask, auto... question) { return ask(question..., nullptr); });
    return check_;
  }

 private:
  // The program's way of asking against the driver's own function.
  template <typename Ask, typename Call>
  void ByProcAddress(const char* name, int* compared, Call call) {
    const auto ask = reinterpret_cast<Ask>(dlsym(handle_, name));
    const auto own = reinterpret_cast<Ask>(exports_.Of(name));
    if (ask == nullptr || own == nullptr) return;
    const auto answer = [&](Ask asked, const char* base, int version, cuuint64_t flags) {
      void* function = nullptr;
      return call(asked, base, &function, version, flags) == CUDA_SUCCESS ? function : nullptr;
    };
    for (const std::string& base : bases_) {
      for (int version : kVersions) {
        for (cuuint64_t flags : kFlags) {
          void* const expected = answer(own, base.c_str(), version, flags);
          if (expected == nullptr) continue;
          ++*compared;
          check_.exports += addresses_.contains(expected);
          Judge(answer(ask, base.c_str(), version, flags), expected,
                std::string(name) + " " + base + " " + std::to_string(version) + " flags " +
                    std::to_string(flags));
        }
      }
    }
  }

  void Judge(void* answer, void* expected, const std::string& question) {
    if (answer == expected && exports_.Holds(answer)) return;
    if (check_.other++ == 0) check_.first_other = question;
  }

  void* const handle_;
  const DriverExports& exports_;
  std::set<void*> addresses_;
  std::set<std::string> bases_;
  PointerCheck check_;
};

}  // namespace

DriverExports::DriverExports(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return;
  Dl_info info = {};
  if (dladdr(map->l_ld, &info) != 0) base_ = info.dli_fbase;
  const Tables tables = TablesOf(*map);
  if (tables.symbols == nullptr || tables.names == nullptr) return;
  const uint32_t count = SymbolCount(tables);
  for (uint32_t i = 0; i < count; ++i) {
    const ElfW(Sym)& symbol = tables.symbols[i];
    const char* const name = tables.names + symbol.st_name;
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
    if (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL || !IsDriverName(name)) continue;
    functions_[name] = reinterpret_cast<void*>(map->l_addr + symbol.st_value);
  }
}

void* DriverExports::Of(const std::string& symbol) const {
  const auto at = functions_.find(symbol);
  return at == functions_.end() ? nullptr : at->second;
}

bool DriverExports::Holds(const void* address) const {
  Dl_info info = {};
  return address != nullptr && dladdr(address, &info) != 0 && info.dli_fbase == base_;
}

PointerCheck ComparePointers(void* handle, const DriverExports& exports) {
  return Comparison(handle, exports).Run();
}

}  // namespace ebt::test
