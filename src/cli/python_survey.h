// Which frameworks the `python3` on PATH has, for `ebbtide doctor`.
#ifndef EBBTIDE_SRC_CLI_PYTHON_SURVEY_H_
#define EBBTIDE_SRC_CLI_PYTHON_SURVEY_H_

#include <string>
#include <vector>

namespace ebt::cli {

struct Package {
  std::string name;
  std::string version;
};

struct PythonSurvey {
  std::string executable;  // empty: no python3 answered within five seconds
  std::vector<Package> packages;
};

// Reads package metadata only; no framework is imported, so no GPU is touched.
PythonSurvey SurveyPython();

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_PYTHON_SURVEY_H_
