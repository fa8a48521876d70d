#include "tests/preload/python_frames_interpreters.h"

#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace ebt::test {

std::string Setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::set<std::string> Interpreters(const std::string& version) {
  const std::string name = "python" + version;
  const bool free_threaded = version.ends_with('t');
  const std::string minor = version.substr(0, version.size() - (free_threaded ? 1 : 0));
  std::vector<std::string> patterns = {
      "/usr/bin/" + name, Setting("PYTHON_FRAMES_FETCHED") + "/" + name + "/bin/" + name,
      Setting("HOME") + "/.pyenv/versions/" + minor + ".*/bin/" + name};
  const std::string path = Setting("PATH");
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    // A pyenv shim is a script that may refuse to run.
    const std::string folder = path.substr(begin, end - begin);
    if (folder.find("shims") == std::string::npos) patterns.push_back(folder + "/" + name);
    begin = end + 1;
  }
  std::set<std::string> found;
  for (const std::string& pattern : patterns) {
    glob_t matches{};
    if (glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
      for (size_t i = 0; i < matches.gl_pathc; ++i) {
        char resolved[4096];
        if (realpath(matches.gl_pathv[i], resolved) != nullptr && access(resolved, X_OK) == 0) {
          found.insert(resolved);
        }
      }
    }
    globfree(&matches);
  }
  return found;
}

std::string PythonName(const testing::TestParamInfo<std::string>& info) {
  std::string name = "Python" + info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

}  // namespace ebt::test
