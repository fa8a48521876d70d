// What this process is: the names and identities of config.h.
#include <elf.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "src/base/config.h"
#include "src/base/units.h"

namespace ebt {
namespace {

// A build-id note is tens of bytes; a damaged header must not make us read the disk.
constexpr uint64_t kMaxNoteBytes = 64 * kKiB;
constexpr size_t kBuildIdDigits = 8;

std::string BaseName(std::string_view path) {
  return std::string(path.substr(path.find_last_of('/') + 1));
}

bool ReadAt(std::ifstream& file, uint64_t offset, void* out, size_t bytes) {
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(file.read(static_cast<char*>(out), static_cast<std::streamsize>(bytes)));
}

// First hex digits of the GNU build-id among the notes, or "".
std::string BuildIdInNotes(const std::string& notes) {
  size_t at = 0;
  Elf64_Nhdr header;
  while (at + sizeof(header) <= notes.size()) {
    std::memcpy(&header, notes.data() + at, sizeof(header));
    const uint64_t name_at = at + sizeof(header);
    const uint64_t data_at = name_at + AlignUp(header.n_namesz, 4);
    const uint64_t end = data_at + AlignUp(header.n_descsz, 4);
    if (end > notes.size()) break;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
        std::memcmp(notes.data() + name_at, "GNU", 4) == 0) {
      std::string digits;
      for (uint32_t i = 0; i < header.n_descsz; ++i) {
        digits += fmt::format("{:02x}", static_cast<unsigned char>(notes[data_at + i]));
      }
      return digits.substr(0, kBuildIdDigits);
    }
    at = end;
  }
  return "";
}

std::string BuildIdOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header;
  if (!file || !ReadAt(file, 0, &header, sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return "";
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!ReadAt(file, header.e_phoff + i * sizeof(segment), &segment, sizeof(segment))) break;
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNoteBytes) continue;
    std::string notes(segment.p_filesz, '\0');
    if (!ReadAt(file, segment.p_offset, notes.data(), notes.size())) continue;
    std::string id = BuildIdInNotes(notes);
    if (!id.empty()) return id;
  }
  return "";
}

// What an interpreter was told to run: a script's path, a module's name, "-c", or "" when
// nothing tells. Single-letter options may be joined ("-um train") and their argument may
// follow in the same word ("-mtrain") or in the next.
std::string InterpreterSubject(const std::vector<std::string>& argv,
                               std::string_view module_options,
                               std::string_view options_with_argument) {
  for (size_t i = 1; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    if (word.empty() || word == "-") return "";
    if (word == "--") return i + 1 < argv.size() ? BaseName(argv[i + 1]) : "";
    if (word[0] != '-') return BaseName(word);
    if (word[1] == '-') continue;
    for (size_t letter = 1; letter < word.size(); ++letter) {
      const char option = word[letter];
      const bool last = letter + 1 == word.size();
      if (option == 'c') return "-c";
      if (module_options.find(option) != std::string_view::npos) {
        if (!last) return word.substr(letter + 1);
        return i + 1 < argv.size() ? argv[i + 1] : "";
      }
      if (options_with_argument.find(option) != std::string_view::npos) {
        if (last) ++i;
        break;
      }
    }
  }
  return "";
}

std::string SubjectOf(const std::string& program, const std::vector<std::string>& argv) {
  if (absl::StartsWith(program, "python") || absl::StartsWith(program, "pypy")) {
    return InterpreterSubject(argv, "m", "WXQ");
  }
  for (const char* shell : {"bash", "dash", "sh", "zsh", "ksh", "busybox"}) {
    if (program == shell) return InterpreterSubject(argv, "", "oO");
  }
  for (const char* other : {"perl", "ruby", "node", "julia", "lua"}) {
    if (absl::StartsWith(program, other)) return InterpreterSubject(argv, "", "");
  }
  return "";
}

struct Self {
  std::string executable;
  std::vector<std::string> argv;
};

Self ReadSelf() {
  Self self;
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length > 0) self.executable.assign(path, static_cast<size_t>(length));
  // A program that was replaced while it runs.
  self.executable = std::string(absl::StripSuffix(self.executable, " (deleted)"));
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string word;
  while (std::getline(file, word, '\0')) self.argv.push_back(word);
  return self;
}

std::string IdentityOf(const std::string& executable, const std::string& build_id,
                       const std::vector<std::string>& argv) {
  std::string identity = BaseName(executable);
  const std::string subject = SubjectOf(identity, argv);
  if (!build_id.empty()) identity += "[" + build_id + "]";
  if (!subject.empty()) identity += ":" + subject;
  return identity;
}

std::string ProgramName() {
  const Self self = ReadSelf();
  const std::string program = BaseName(self.executable);
  const std::string subject = SubjectOf(program, self.argv);
  return subject.empty() || subject == "-c" ? program : subject;
}

std::string Rank() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    const char* value = getenv(name);
    if (value == nullptr || *value == '\0') continue;
    // It becomes part of a path.
    if (strspn(value, "0123456789") == strlen(value)) return value;
  }
  return "0";
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

}  // namespace

std::string FillPath(std::string_view pattern) {
  std::string path(pattern);
  const auto fill = [&path](const char* placeholder, std::string (*value)()) {
    if (!absl::StrContains(path, placeholder)) return;
    path = absl::StrReplaceAll(path, {{placeholder, value()}});
  };
  fill("{rank}", Rank);
  fill("{pid}", [] { return std::to_string(getpid()); });
  fill("{host}", HostName);
  fill("{program}", ProgramName);
  return path;
}

std::string UtcNow() {
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string ProgramIdentityOf(const std::string& executable, const std::vector<std::string>& argv) {
  return IdentityOf(executable, BuildIdOf(executable), argv);
}

std::string ProgramIdentity() {
  const Self self = ReadSelf();
  // The link leads to the program even where its path has gone.
  return IdentityOf(self.executable, BuildIdOf("/proc/self/exe"), self.argv);
}

}  // namespace ebt
