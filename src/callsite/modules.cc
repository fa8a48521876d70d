#include "src/callsite/modules.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string_view>

namespace ebt::callsite {
namespace {

constexpr std::string_view kOurPrefix = "libebbtide";

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string ProgramPath() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : "[program]";
}

bool LoadedHolds(const dl_phdr_info& info, uint64_t address, uint64_t bytes, uint32_t flags) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & flags) != flags) continue;
    const uint64_t begin = info.dlpi_addr + segment.p_vaddr;
    if (address >= begin && bytes <= segment.p_memsz &&
        address - begin <= segment.p_memsz - bytes) {
      return true;
    }
  }
  return false;
}

std::string Hex(const uint8_t* bytes, size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text.push_back(kDigits[bytes[i] >> 4]);
    text.push_back(kDigits[bytes[i] & 15]);
  }
  return text;
}

// The build-id among the notes of one segment; empty if it is not there.
std::string BuildIdIn(const uint8_t* notes, uint64_t bytes, uint64_t alignment) {
  const uint64_t align = alignment == 8 ? 8 : 4;
  constexpr uint32_t kMaxBytes = 64;  // SHA-1 has 20; more than this is no build-id
  const auto padded = [align](uint64_t n) { return (n + align - 1) / align * align; };
  ElfW(Nhdr) head;
  for (uint64_t at = 0; at + sizeof(head) <= bytes;) {
    std::memcpy(&head, notes + at, sizeof(head));
    const uint64_t name = at + sizeof(head);
    const uint64_t content = at + padded(sizeof(head) + head.n_namesz);
    if (content > bytes || head.n_descsz > bytes - content) break;
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == sizeof(ELF_NOTE_GNU) &&
        std::memcmp(notes + name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0 && head.n_descsz > 0 &&
        head.n_descsz <= kMaxBytes) {
      return Hex(notes + content, head.n_descsz);
    }
    at = padded(content + head.n_descsz);
  }
  return {};
}

std::string BuildId(const dl_phdr_info& info) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const uint64_t address = info.dlpi_addr + segment.p_vaddr;
    // A note segment outside the loaded ones is in the file alone.
    if (!LoadedHolds(info, address, segment.p_memsz, PF_R)) continue;
    std::string id =
        BuildIdIn(reinterpret_cast<const uint8_t*>(address), segment.p_memsz, segment.p_align);
    if (!id.empty()) return id;
  }
  return {};
}

// This very code's module counts as ours unless it is the program itself: where everything is
// linked into one executable, leaving that out would leave nothing.
bool IsOurs(const dl_phdr_info& info, bool program, std::string_view base_name) {
  if (base_name.substr(0, kOurPrefix.size()) == kOurPrefix) return true;
  return !program && LoadedHolds(info, reinterpret_cast<uint64_t>(&IsOurs), 1, PF_X);
}

int UnloadsOfFirst(dl_phdr_info* info, size_t, void* unloads) {
  *static_cast<uint64_t*>(unloads) = info->dlpi_subs;
  return 1;
}

struct CodeSearch {
  uint64_t address;
  AddressRange found;
};

int FindCode(dl_phdr_info* info, size_t, void* data) {
  auto& search = *static_cast<CodeSearch*>(data);
  if (!LoadedHolds(*info, search.address, 1, PF_X)) return 0;
  search.found = {UINT64_MAX, 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const uint64_t begin = info->dlpi_addr + segment.p_vaddr;
    search.found.begin = std::min(search.found.begin, begin);
    search.found.end = std::max(search.found.end, begin + segment.p_memsz);
  }
  return 1;
}

}  // namespace

struct ModuleTable::Reading {
  ModuleTable* table;
  bool changed = false;
  uint64_t loads = 0, unloads = 0;
  std::exception_ptr failure;

  void Add(const dl_phdr_info& info) {
    // The loader lists the program first and without a name.
    const bool program = table->modules_.empty() && info.dlpi_name[0] == '\0';
    Module module;
    module.path = program ? ProgramPath() : info.dlpi_name;
    module.identity = BuildId(info);
    if (module.identity.empty()) module.identity = BaseName(module.path);
    module.bias = info.dlpi_addr;
    module.ours = IsOurs(info, program, BaseName(module.path));
    const auto index = static_cast<uint32_t>(table->modules_.size());
    table->modules_.push_back(std::move(module));
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info.dlpi_phdr[i];
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
      const uint64_t begin = info.dlpi_addr + segment.p_vaddr;
      table->code_.push_back({begin, begin + segment.p_memsz, index});
    }
  }

  // Called by the loader, a C frame, under its lock: what is thrown waits until it is over.
  static int Visit(dl_phdr_info* info, size_t, void* data) {
    auto& reading = *static_cast<Reading*>(data);
    ModuleTable& table = *reading.table;
    try {
      if (!reading.changed) {
        if (info->dlpi_adds == table.loads_ && info->dlpi_subs == table.unloads_) return 1;
        reading.changed = true;
        table.modules_.clear();
        table.code_.clear();
        reading.loads = info->dlpi_adds;
        reading.unloads = info->dlpi_subs;
        table.loads_ = 0;  // never equal again, should this reading fail half-way
      }
      reading.Add(*info);
      return 0;
    } catch (...) {
      reading.failure = std::current_exception();
      return 1;
    }
  }
};

bool ModuleTable::Refresh() {
  Reading reading{.table = this};
  dl_iterate_phdr(&Reading::Visit, &reading);
  if (reading.failure) std::rethrow_exception(reading.failure);
  if (!reading.changed) return false;
  std::sort(code_.begin(), code_.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.begin < b.begin; });
  loads_ = reading.loads;
  unloads_ = reading.unloads;
  return true;
}

const Module* ModuleTable::Find(uint64_t pc) const noexcept {
  auto after = std::upper_bound(code_.begin(), code_.end(), pc,
                                [](uint64_t value, const CodeRange& r) { return value < r.begin; });
  if (after == code_.begin()) return nullptr;
  const CodeRange& range = *std::prev(after);
  return pc < range.end ? &modules_[range.module] : nullptr;
}

uint64_t ModuleTable::UnloadsNow() noexcept {
  uint64_t unloads = 0;
  dl_iterate_phdr(&UnloadsOfFirst, &unloads);
  return unloads;
}

AddressRange CodeAround(const void* address) noexcept {
  CodeSearch search{reinterpret_cast<uint64_t>(address), {}};
  dl_iterate_phdr(&FindCode, &search);
  return search.found;
}

}  // namespace ebt::callsite
