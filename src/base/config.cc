#include "src/base/config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "src/base/dump_signal.h"
#include "src/base/units.h"

namespace ebt {
namespace {

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

// Levenshtein's distance, one row at a time.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

const char* NearestName(std::string_view name) {
  const auto& known = EnvVars();
  return std::min_element(known.begin(), known.end(),
                          [name](const EnvVar& a, const EnvVar& b) {
                            return EditDistance(name, a.name) < EditDistance(name, b.name);
                          })
      ->name;
}

const EnvVar* FindVar(std::string_view name) {
  for (const EnvVar& var : EnvVars()) {
    if (name == var.name) return &var;
  }
  return nullptr;
}

template <typename T>
using Words = std::vector<std::pair<std::string_view, T>>;

// The values of one process's variables, and the complaints that reading them gave rise to.
class Values {
 public:
  Values(const std::vector<std::string_view>& environment, std::vector<std::string>* complaints)
      : complaints_(complaints) {
    for (std::string_view entry : environment) {
      const size_t equals = entry.find('=');
      if (equals == std::string_view::npos || !absl::StartsWith(ToAbsl(entry), "EBBTIDE_")) {
        continue;
      }
      const std::string_view name = entry.substr(0, equals);
      const EnvVar* var = FindVar(name);
      if (var == nullptr) {
        complaints_->push_back(fmt::format(
            "{} is not a variable of Ebbtide; did you mean {}? (`ebbtide env` lists them all)",
            name, NearestName(name)));
        continue;
      }
      // getenv sees the first of two entries with one name; so do we.
      if (Set(var) == nullptr) set_.emplace_back(var, entry.substr(equals + 1));
    }
  }

  // The default where the variable is unset or empty.
  std::string_view Text(std::string_view name) const {
    const EnvVar* var = FindVar(name);
    const std::string_view* value = Set(var);
    return value != nullptr && !value->empty() ? *value : std::string_view(var->default_value);
  }

  template <typename T>
  T Word(std::string_view name, const Words<T>& words, std::string_view accepted) {
    for (bool use_default : {false, true}) {
      const std::string_view text = use_default ? FindVar(name)->default_value : Text(name);
      const std::string lower = absl::AsciiStrToLower(ToAbsl(text));
      for (const auto& [word, value] : words) {
        if (lower == word) return value;
      }
      Complain(name, text, accepted);
    }
    return words.front().second;
  }

  uint64_t Size(std::string_view name) {
    const std::string_view text = Text(name);
    if (text.empty()) return 0;
    const absl::StatusOr<uint64_t> size = ParseSize(text);
    if (size.ok()) return *size;
    complaints_->push_back(
        fmt::format("{}: {}; it is left unset", name, std::string(size.status().message())));
    return 0;
  }

  // Hexadecimal numbers between commas.
  std::vector<uint64_t> Numbers(std::string_view name) {
    std::vector<uint64_t> numbers;
    const std::string_view text = Text(name);
    for (absl::string_view word : absl::StrSplit(ToAbsl(text), ',', absl::SkipEmpty())) {
      uint64_t number = 0;
      if (!absl::SimpleHexAtoi(word, &number)) {
        Complain(name, text, "numbers such as 0x1a2b,0x3c4d");
        return {};
      }
      numbers.push_back(number);
    }
    return numbers;
  }

  int Signal(std::string_view name) {
    const std::string_view text = Text(name);
    if (text.empty()) return 0;
    if (const std::optional<int> number = DumpSignalNumber(text)) return *number;
    complaints_->push_back(fmt::format("{}={} is not understood; accepted: {}; none is caught",
                                       name, text, kDumpSignalNames));
    return 0;
  }

  int Count(std::string_view name) {
    const std::string_view text = Text(name);
    int count = 0;
    if (absl::SimpleAtoi(ToAbsl(text), &count) && count >= 0) return count;
    Complain(name, text, "a whole number from 0 up");
    return 0;
  }

 private:
  const std::string_view* Set(const EnvVar* var) const {
    for (const auto& [known, value] : set_) {
      if (known == var) return &value;
    }
    return nullptr;
  }

  void Complain(std::string_view name, std::string_view text, std::string_view accepted) {
    const std::string_view fallback = FindVar(name)->default_value;
    complaints_->push_back(fmt::format("{}={} is not understood; accepted: {}; {} is used", name,
                                       text, accepted, fallback));
  }

  std::vector<std::pair<const EnvVar*, std::string_view>> set_;
  std::vector<std::string>* complaints_;
};

}  // namespace

const std::vector<EnvVar>& EnvVars() {
  // Leaked on purpose: hooks run until the process is gone.
  static const auto* const kVars = new std::vector<EnvVar>{
#define EBT_ENV(name, default_value, meaning) {name, default_value, meaning},
#include "src/base/env_vars.def"
#undef EBT_ENV
  };
  return *kVars;
}

Config ParseConfig(const std::vector<std::string_view>& environment) {
  Config config;
  Values values(environment, &config.complaints);
  config.mode = values.Word<Mode>(
      "EBBTIDE_MODE", {{"off", Mode::kOff}, {"record", Mode::kRecord}, {"replay", Mode::kReplay}},
      "off, record, replay");
  config.profile_path = FillPath(values.Text("EBBTIDE_PROFILE"));
  config.plan_path = FillPath(values.Text("EBBTIDE_PLAN"));
  config.budget = values.Size("EBBTIDE_BUDGET");
  config.host_budget = values.Size("EBBTIDE_HOST_BUDGET");
  config.cold = values.Word<Cold>("EBBTIDE_COLD",
                                  {{"auto", Cold::kAuto},
                                   {"swap", Cold::kSwap},
                                   {"managed", Cold::kManaged},
                                   {"off", Cold::kOff}},
                                  "auto, swap, managed, off");
  config.run_log_path = FillPath(values.Text("EBBTIDE_RUN_LOG"));
  config.coverage_path = FillPath(values.Text("EBBTIDE_COVERAGE"));
  config.dump_path = FillPath(values.Text("EBBTIDE_DUMP"));
  config.dump_signal = values.Signal("EBBTIDE_DUMP_SIGNAL");
  config.trial_path = std::string(values.Text("EBBTIDE_TRIAL"));
  config.trial_sites = values.Numbers("EBBTIDE_TRIAL_SITES");
  config.torch_backend = values.Word<TorchBackend>("EBBTIDE_TORCH_BACKEND",
                                                   {{"async", TorchBackend::kAsync},
                                                    {"native", TorchBackend::kNative},
                                                    {"keep", TorchBackend::kKeep}},
                                                   "async, native, keep");
  config.record_steps = values.Count("EBBTIDE_STEPS");
  config.step_kernel = std::string(values.Text("EBBTIDE_STEP_KERNEL"));
  config.strict = values.Word<bool>("EBBTIDE_STRICT",
                                    {{"0", false},
                                     {"1", true},
                                     {"false", false},
                                     {"true", true},
                                     {"no", false},
                                     {"yes", true},
                                     {"off", false},
                                     {"on", true}},
                                    "0, 1");
  config.log_level = values.Word<LogLevel>("EBBTIDE_LOG",
                                           {{"error", LogLevel::kError},
                                            {"warning", LogLevel::kWarning},
                                            {"info", LogLevel::kInfo},
                                            {"debug", LogLevel::kDebug}},
                                           "error, warning, info, debug");
  return config;
}

}  // namespace ebt
