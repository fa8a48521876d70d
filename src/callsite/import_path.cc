#include "src/callsite/import_path.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

namespace ebt::callsite {
namespace {

// Beyond this many folders the cache is emptied rather than grown.
constexpr size_t kMaxFolders = size_t{1} << 14;

bool IsArchive(std::string_view component) {
  constexpr std::array<std::string_view, 5> kEndings = {".zip", ".egg", ".whl", ".pyz", ".pex"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [component](std::string_view ending) { return component.ends_with(ending); });
}

// python3.X, with a t where it was built without a GIL: the folder of the standard library.
bool IsVersionedPython(std::string_view component) {
  constexpr std::string_view kBeginning = "python3.";
  if (!component.starts_with(kBeginning)) return false;
  component.remove_prefix(kBeginning.size());
  if (component.ends_with('t')) component.remove_suffix(1);
  return !component.empty() && component.find_first_not_of("0123456789") == component.npos;
}

bool IsSearched(std::string_view parent, std::string_view component) {
  if (component == "site-packages" || component == "dist-packages" || IsArchive(component)) {
    return true;
  }
  return parent.starts_with("lib") && IsVersionedPython(component);
}

// The length of the part of an absolute path that ends with the last such component and its
// slash; 0 if there is none. The file itself is none.
size_t SearchedFolder(std::string_view path) {
  size_t found = 0;
  std::string_view parent;
  for (size_t begin = 1; begin < path.size();) {
    const size_t slash = path.find('/', begin);
    if (slash == std::string_view::npos) break;
    const std::string_view component = path.substr(begin, slash - begin);
    if (IsSearched(parent, component)) found = slash + 1;
    parent = component;
    begin = slash + 1;
  }
  return found;
}

// An absolute path without empty, "." and ".." components. What follows a link and ".." may be
// elsewhere on disk; as a name it is as good.
std::string Plain(std::string_view path) {
  std::string plain;
  for (size_t begin = 0; begin < path.size();) {
    const size_t slash = std::min(path.find('/', begin), path.size());
    const std::string_view component = path.substr(begin, slash - begin);
    begin = slash + 1;
    if (component.empty() || component == ".") continue;
    if (component == "..") {
      plain.resize(plain.empty() ? 0 : plain.rfind('/'));
      continue;
    }
    plain.push_back('/');
    plain.append(component);
  }
  return plain;
}

// With the slash at its end.
std::string_view FolderOf(std::string_view path) { return path.substr(0, path.rfind('/') + 1); }

std::string CommandLine() {
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string text(size_t{1} << 16, '\0');
  const ssize_t bytes = read(file, text.data(), text.size());
  close(file);
  text.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
  return text;
}

// What an option of one letter after a dash does to the search for the script.
enum class Option { kAlone, kTakesNext, kNoScript };
Option ShortOption(std::string_view letters) {
  for (size_t i = 0; i < letters.size(); ++i) {
    if (letters[i] == 'c' || letters[i] == 'm') return Option::kNoScript;
    if (letters[i] != 'W' && letters[i] != 'X') continue;
    return i + 1 == letters.size() ? Option::kTakesNext : Option::kAlone;
  }
  return Option::kAlone;
}

}  // namespace

std::string ScriptIn(std::string_view command_line) {
  const std::string_view program = command_line.substr(0, command_line.find('\0'));
  if (!program.substr(program.rfind('/') + 1).starts_with("python")) return {};
  bool takes_next = true;  // the program's own name is no argument
  bool options = true;
  for (size_t begin = 0; begin < command_line.size();) {
    const size_t end = std::min(command_line.find('\0', begin), command_line.size());
    const std::string_view argument = command_line.substr(begin, end - begin);
    begin = end + 1;
    if (std::exchange(takes_next, false)) continue;
    if (!options || !argument.starts_with('-')) return std::string(argument);
    if (argument == "-") return {};
    if (argument == "--") {
      options = false;
    } else if (argument.starts_with("--")) {
      takes_next = argument == "--check-hash-based-pycs";
    } else {
      const Option option = ShortOption(argument.substr(1));
      if (option == Option::kNoScript) return {};
      takes_next = option == Option::kTakesNext;
    }
  }
  return {};
}

ImportPaths::ImportPaths() : ImportPaths(ScriptIn(CommandLine())) {}

ImportPaths::ImportPaths(const std::string& script) {
  if (script.empty()) return;
  std::array<char, 4096> working;
  std::string given = script;
  if (!given.starts_with('/')) {
    if (getcwd(working.data(), working.size()) == nullptr) return;
    given = std::string(working.data()) + '/' + given;
  }
  // The script's own code has the path as it was given, what it imports the real folder.
  script_folders_.emplace_back(FolderOf(Plain(given)));
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(given.c_str(), nullptr),
                                                         &std::free);
  if (real != nullptr) script_folders_.emplace_back(FolderOf(real.get()));
}

size_t ImportPaths::PackageRoot(const std::string& folder) {
  if (auto known = package_roots_.find(folder); known != package_roots_.end()) {
    return known->second;
  }
  std::string marker;
  size_t root = folder.size();
  while (root > 1) {
    marker.assign(folder, 0, root).append("__init__.py");
    if (access(marker.c_str(), F_OK) != 0) break;
    root = folder.rfind('/', root - 2) + 1;
  }
  if (package_roots_.size() >= kMaxFolders) package_roots_.clear();
  package_roots_.emplace(folder, root);
  return root;
}

std::string ImportPaths::NameOf(std::string_view file) {
  if (!file.starts_with('/')) return std::string(file);
  const std::string path = Plain(file);
  if (const size_t searched = SearchedFolder(path); searched > 0) return path.substr(searched);
  size_t root = PackageRoot(std::string(FolderOf(path)));
  for (const std::string& folder : script_folders_) {
    if (path.starts_with(folder)) root = std::max(root, folder.size());
  }
  return path.substr(root);
}

}  // namespace ebt::callsite
