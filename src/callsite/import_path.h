// What a Python file is called independently of where it is installed.
//
// The name wanted is the path below the entry of sys.path that the file was imported from. That
// list cannot be read without the GIL, and it changes while a program runs, so that one file would
// have several names. What is looked at instead is the same in every run: the file's own path, the
// packages on disk around it, and the script that the interpreter was started with.
#ifndef EBBTIDE_SRC_CALLSITE_IMPORT_PATH_H_
#define EBBTIDE_SRC_CALLSITE_IMPORT_PATH_H_

#include <absl/container/flat_hash_map.h>

#include <string>
#include <string_view>
#include <vector>

namespace ebt::callsite {

// The script's path in an interpreter's command line as in /proc/PID/cmdline (each argument ends
// with a 0), as it was given; empty for -c, -m, standard input or no script at all, and where the
// program is not called python.
std::string ScriptIn(std::string_view command_line);

// Not thread-safe: the caller serializes. All may throw std::bad_alloc.
class ImportPaths {
 public:
  // script: as given to the interpreter; may be empty. A relative one is looked for from the
  // present working directory on.
  explicit ImportPaths(const std::string& script);
  // With the script of this process.
  ImportPaths();

  // The name of a code object's file. Of these beginnings the first that there is is left out:
  //  1. up to and with the last folder or archive that by its name can only be an entry of
  //     sys.path: site-packages, dist-packages, lib/python3.X, or one that ends in .zip, .egg,
  //     .whl, .pyz or .pex;
  //  2. the longer one of the script's folder and the folder around the outermost package (the
  //     folders from the file outwards that hold an __init__.py).
  // A relative path, and what is no path ("<string>"), stay as they are.
  std::string NameOf(std::string_view file);

 private:
  size_t PackageRoot(const std::string& folder);

  std::vector<std::string> script_folders_;  // each ends with a slash
  // How much of a folder's path lies outside its packages. May be emptied at any time.
  absl::flat_hash_map<std::string, size_t> package_roots_;
};

}  // namespace ebt::callsite

#endif  // EBBTIDE_SRC_CALLSITE_IMPORT_PATH_H_
