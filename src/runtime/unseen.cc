#include "src/runtime/unseen.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "absl/container/flat_hash_set.h"

namespace ebt::runtime {
namespace {

#ifndef __x86_64__
#error "relocations are read as those of x86-64"
#endif

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool StartsWith(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

bool IsDriver(std::string_view name) { return StartsWith(name, "libcuda.so"); }

// Where dlsym itself lives: libdl until glibc 2.34.
bool IsLibc(std::string_view name) {
  return StartsWith(name, "libc.so.6") || StartsWith(name, "libdl.so.2");
}

// The driver calls itself, and what we call is no call of the program's.
bool IsLeftOut(std::string_view name) {
  return IsDriver(name) || IsLibc(name) || StartsWith(name, "libcudadebugger.so") ||
         StartsWith(name, "libnvidia-") || StartsWith(name, "ld-linux") ||
         StartsWith(name, "linux-vdso") || StartsWith(name, "libebbtide");
}

bool Holds(const dl_phdr_info& library, uintptr_t address, size_t bytes) {
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = library.dlpi_phdr[i];
    const uintptr_t begin = library.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && address >= begin && address + bytes <= begin + part.p_memsz)
      return true;
  }
  return false;
}

// What the dynamic section of one library says of its symbols and slots.
struct Dynamic {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * tables[2] = {};  // of data, and of the procedure linkage table
  size_t bytes[2] = {};
};

// glibc writes addresses over most libraries' offsets, and leaves read-only sections alone.
template <typename T>
const T* Located(const dl_phdr_info& library, ElfW(Addr) value) {
  return reinterpret_cast<const T*>(value < library.dlpi_addr ? library.dlpi_addr + value : value);
}

Dynamic ReadDynamic(const dl_phdr_info& library) {
  Dynamic dynamic;
  const ElfW(Dyn)* entry = nullptr;
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    if (library.dlpi_phdr[i].p_type == PT_DYNAMIC)
      entry = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + library.dlpi_phdr[i].p_vaddr);
  }
  for (; entry && entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) value = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) dynamic.symbols = Located<ElfW(Sym)>(library, value);
    if (entry->d_tag == DT_STRTAB) dynamic.names = Located<char>(library, value);
    if (entry->d_tag == DT_RELA) dynamic.tables[0] = Located<ElfW(Rela)>(library, value);
    if (entry->d_tag == DT_RELASZ) dynamic.bytes[0] = value;
    if (entry->d_tag == DT_JMPREL) dynamic.tables[1] = Located<ElfW(Rela)>(library, value);
    if (entry->d_tag == DT_PLTRELSZ) dynamic.bytes[1] = value;
  }
  return dynamic;
}

using Names = absl::flat_hash_set<std::string_view>;

Names HookedNames(const ebt_front& front) {
  Names names;
  ebt_row_calls row;
  for (int i = 0; front.row_calls(i, &row); ++i) names.insert(row.symbol);
  return names;
}

// Two walks: whose code is where must be known before anybody's slots are looked at.
class Search {
 public:
  explicit Search(const ebt_front& front) : hooked_(HookedNames(front)) {}

  std::vector<UnseenLibrary> Run() {
    dl_iterate_phdr(&Search::Walk<&Search::NotePlace>, this);
    dl_iterate_phdr(&Search::Walk<&Search::Inspect>, this);
    return std::move(found_);
  }

 private:
  struct Range {
    uintptr_t begin, end;
    bool Holds(uintptr_t address) const { return address >= begin && address < end; }
  };

  // Nothing may be thrown across the loader.
  template <void (Search::*visit)(const dl_phdr_info&)>
  static int Walk(dl_phdr_info* library, size_t, void* self) noexcept {
    try {
      (static_cast<Search*>(self)->*visit)(*library);
      return 0;
    } catch (...) {
      return 1;
    }
  }

  void NotePlace(const dl_phdr_info& library) {
    const std::string_view name = FileName(library.dlpi_name);
    if (!IsDriver(name) && !IsLibc(name)) return;
    for (int i = 0; i < library.dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = library.dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
      const uintptr_t begin = library.dlpi_addr + part.p_vaddr;
      (IsDriver(name) ? driver_ : libc_).push_back({begin, begin + part.p_memsz});
    }
  }

  bool IsPastTheFront(std::string_view symbol, uintptr_t target) const {
    const auto in = [target](const std::vector<Range>& ranges) {
      return std::any_of(ranges.begin(), ranges.end(),
                         [target](const Range& range) { return range.Holds(target); });
    };
    // The front's dlsym comes first wherever the global scope is asked first. Bound to libc's, a
    // library was loaded with RTLD_DEEPBIND, and whatever it looks up is not seen.
    if (symbol == "dlsym") return in(libc_);
    return in(driver_) && hooked_.contains(symbol);
  }

  void Inspect(const dl_phdr_info& library) {
    const std::string_view name = FileName(library.dlpi_name);
    if (name.empty() || IsLeftOut(name)) return;
    const Dynamic dynamic = ReadDynamic(library);
    if (!dynamic.symbols || !dynamic.names) return;
    std::vector<std::string> symbols;
    for (int table = 0; table < 2; ++table) {
      const ElfW(Rela)* slot = dynamic.tables[table];
      if (!slot) continue;
      const ElfW(Rela)* const end = slot + dynamic.bytes[table] / sizeof(*slot);
      for (; slot != end; ++slot) {
        const auto type = ELF64_R_TYPE(slot->r_info);
        if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
        const char* symbol = dynamic.names + dynamic.symbols[ELF64_R_SYM(slot->r_info)].st_name;
        const uintptr_t place = library.dlpi_addr + slot->r_offset;
        if (!Holds(library, place, sizeof(uintptr_t))) continue;
        uintptr_t target;
        std::memcpy(&target, reinterpret_cast<const void*>(place), sizeof(target));
        if (IsPastTheFront(symbol, target)) symbols.emplace_back(symbol);
      }
    }
    if (symbols.empty()) return;
    std::sort(symbols.begin(), symbols.end());
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    found_.push_back({std::string(name), std::move(symbols)});
  }

  const Names hooked_;
  std::vector<Range> driver_, libc_;
  std::vector<UnseenLibrary> found_;
};

}  // namespace

std::vector<UnseenLibrary> FindUnseen(const ebt_front& front) { return Search(front).Run(); }

std::string DriverPath(const ebt_front& front) {
  Dl_info info;
  void* function = front.real("cuInit");
  if (!function || !dladdr(function, &info) || !info.dli_fname) return "";
  return info.dli_fname;
}

}  // namespace ebt::runtime
