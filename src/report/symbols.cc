#include "src/report/symbols.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "src/report/names.h"

namespace ebt::report {
namespace {

using callsite::Frame;

// An ELF file, open to be read.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path)
      // A path of a recording may lead anywhere: nothing is waited for.
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    struct stat status;
    if (file_ < 0 || fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) return;
    elf_ = elf_begin(file_, ELF_C_READ_MMAP, nullptr);
    if (elf_ != nullptr && elf_kind(elf_) == ELF_K_ELF) return;
    elf_end(elf_);
    elf_ = nullptr;
  }
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;
  ~ElfFile() {
    if (elf_ != nullptr) elf_end(elf_);
    if (file_ >= 0) close(file_);
  }

  bool ok() const { return elf_ != nullptr; }

  // In hex; empty: it has none.
  std::string BuildId() const {
    size_t segments = 0;
    if (elf_getphdrnum(elf_, &segments) != 0) return "";
    for (size_t i = 0; i < segments; ++i) {
      GElf_Phdr segment;
      if (gelf_getphdr(elf_, int(i), &segment) == nullptr || segment.p_type != PT_NOTE) continue;
      Elf_Data* notes = elf_getdata_rawchunk(elf_, int64_t(segment.p_offset), segment.p_filesz,
                                             segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
      if (const std::string id = BuildIdIn(notes); !id.empty()) return id;
    }
    return "";
  }

  // Calls visit(name, symbol) for each function that the file defines; name() is its name.
  template <typename Visit>
  void ForEachFunction(Visit visit) const {
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr) continue;
      if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) continue;
      Elf_Data* data = elf_getdata(section, nullptr);
      if (data == nullptr || header.sh_entsize == 0) continue;
      GElf_Sym symbol;
      for (int i = 0; gelf_getsym(data, i, &symbol) != nullptr; ++i) {
        const int type = GELF_ST_TYPE(symbol.st_info);
        if (type != STT_FUNC && type != STT_GNU_IFUNC) continue;
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0) continue;
        visit([&] { return elf_strptr(elf_, header.sh_link, symbol.st_name); }, symbol);
      }
    }
  }

 private:
  static std::string BuildIdIn(Elf_Data* notes) {
    GElf_Nhdr head;
    size_t name = 0, content = 0;
    for (size_t at = 0; notes != nullptr;) {
      at = gelf_getnote(notes, at, &head, &name, &content);
      if (at == 0) return "";
      const char* bytes = static_cast<const char*>(notes->d_buf);
      const std::string_view owner(bytes + name, head.n_namesz);
      if (head.n_type == NT_GNU_BUILD_ID && owner == std::string_view("GNU", 4))
        return absl::BytesToHexString({bytes + content, head.n_descsz});
    }
    return "";
  }

  int file_ = -1;
  Elf* elf_ = nullptr;
};

bool IsBuildId(const std::string& module) {
  return module.size() >= 8 && module.size() % 2 == 0 &&
         std::all_of(module.begin(), module.end(),
                     [](unsigned char c) { return std::isdigit(c) || (c >= 'a' && c <= 'f'); });
}

// A frame of a module, and the symbol that is found for it.
struct Wanted {
  uint64_t offset = 0;
  std::string function;  // as the linker knows it
  uint64_t start = 0;
  bool global = false;
};

// Of functions around an offset the one that begins last: a larger symbol around it is a section's
// or a hand-written table's. Of several names of one the global, of several of those the shortest.
bool IsBetter(const Wanted& than, uint64_t start, bool global, std::string_view name) {
  if (than.function.empty() || start != than.start) return start >= than.start;
  if (global != than.global) return global;
  return name.size() < than.function.size();
}

void FindFunctions(const ElfFile& file, std::vector<Wanted>& wanted) {
  file.ForEachFunction([&](auto name, const GElf_Sym& symbol) {
    const uint64_t start = symbol.st_value;
    const bool global = GELF_ST_BIND(symbol.st_info) == STB_GLOBAL;
    auto from = std::lower_bound(wanted.begin(), wanted.end(), start,
                                 [](const Wanted& w, uint64_t value) { return w.offset < value; });
    for (; from != wanted.end() && from->offset - start < symbol.st_size; ++from) {
      const char* text = name();
      if (text == nullptr || *text == '\0' || !IsBetter(*from, start, global, text)) continue;
      *from = {.offset = from->offset, .function = text, .start = start, .global = global};
    }
  });
}

void ResolveModule(const std::string& module, const std::string& path,
                   std::vector<Wanted>& wanted) {
  const bool by_build_id = IsBuildId(module);
  if (by_build_id) {
    const ElfFile debug("/usr/lib/debug/.build-id/" + module.substr(0, 2) + "/" + module.substr(2) +
                        ".debug");
    if (debug.ok()) FindFunctions(debug, wanted);
  }
  const ElfFile file(path);
  if (!file.ok()) return;
  // A file without a build-id was recorded by its name.
  if (file.BuildId() != (by_build_id ? module : "")) return;
  FindFunctions(file, wanted);
}

using Module = std::pair<std::string, std::string>;  // identity, path

bool IsWanted(const Frame& frame) {
  return frame.kind == Frame::Kind::kNative && frame.function.empty() && !frame.file.empty();
}

}  // namespace

void ResolveNames(std::vector<callsite::Site>& sites) {
  if (elf_version(EV_CURRENT) == EV_NONE) return;
  std::map<Module, absl::flat_hash_map<uint64_t, std::string>> names;
  for (const callsite::Site& site : sites) {
    for (const Frame& frame : site.frames) {
      if (IsWanted(frame)) names[{frame.module, frame.file}][frame.offset];
    }
  }
  for (auto& [module, offsets] : names) {
    std::vector<Wanted> wanted;
    for (const auto& [offset, function] : offsets) wanted.push_back({.offset = offset});
    std::sort(wanted.begin(), wanted.end(),
              [](const Wanted& a, const Wanted& b) { return a.offset < b.offset; });
    ResolveModule(module.first, module.second, wanted);
    for (const Wanted& found : wanted) offsets[found.offset] = Demangled(found.function);
  }
  for (callsite::Site& site : sites) {
    for (Frame& frame : site.frames) {
      if (IsWanted(frame)) frame.function = names[{frame.module, frame.file}][frame.offset];
    }
  }
}

}  // namespace ebt::report
