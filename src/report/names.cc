#include "src/report/names.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "src/plan/hotness.h"

namespace ebt::report {
namespace {

using callsite::Frame;
using callsite::Site;

constexpr size_t kShortArgument = 12;
constexpr size_t kCommonPart = 8;
constexpr size_t kNeverCommon = 2;  // sites

bool StartsWith(std::string_view text, size_t at, std::string_view what) {
  return text.substr(at, what.size()) == what;
}

// Just behind the bracket that closes the one at `at`; the end where none does. Arrows and
// operators such as "->" or "operator<" are no brackets.
size_t Behind(std::string_view text, size_t at) {
  std::string open;
  for (size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '-' && StartsWith(text, i, "->")) {
      ++i;
    } else if (c == '(' || c == '{' || c == '[' || c == '<') {
      open.push_back(c);
    } else if (c == ')' || c == '}' || c == ']' || c == '>') {
      open.pop_back();
      if (open.empty()) return i + 1;
    }
  }
  return text.size();
}

// "4, ..." of "4, at::F": a short first argument tells variants apart.
std::string ShortArguments(std::string_view arguments) {
  const size_t comma = arguments.find_first_of(",<({");
  const bool one = comma == std::string_view::npos;
  std::string_view first = one ? arguments : arguments.substr(0, comma);
  while (!first.empty() && first.back() == ' ') first.remove_suffix(1);
  const bool whole = one || arguments[comma] == ',';
  if (!whole || first.size() > kShortArgument) return "...";
  return std::string(first) + (one ? "" : ", ...");
}

bool IsWordPart(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Cuts a demangled name down from its begin to its end.
class Shortener {
 public:
  explicit Shortener(std::string_view text) : text_(text) {}

  std::string Shorten() {
    while (at_ < text_.size() && Take()) {
    }
    return out_.empty() ? std::string(text_) : out_;
  }

 private:
  // False: the name ends here.
  bool Take() {
    if (TakeOperator()) return true;
    switch (text_[at_]) {
      case '<':
        TakeArguments();
        return true;
      case '(':
        return TakeParentheses();
      case '{':
        TakeBraces();
        return true;
      case ' ':
        if (in_operator_) break;
        out_.clear();  // what came so far was the return type
        ++at_;
        return true;
    }
    out_.push_back(text_[at_++]);
    return true;
  }

  bool TakeOperator() {
    constexpr std::string_view kWord = "operator", kSigns = "+-*/%^&|~!=<>,";
    if (!StartsWith(text_, at_, kWord) || (at_ > 0 && IsWordPart(text_[at_ - 1]))) return false;
    size_t end = at_ + kWord.size();
    if (StartsWith(text_, end, "()") || StartsWith(text_, end, "[]")) end += 2;
    while (end < text_.size() && kSigns.find(text_[end]) != kSigns.npos) ++end;
    Copy(end);
    return in_operator_ = true;
  }

  void TakeArguments() {
    const size_t end = Behind(text_, at_);
    out_ += "<" + ShortArguments(text_.substr(at_ + 1, end - at_ - 2)) + ">";
    at_ = end;
  }

  // Parameters of a function around a local one are left out; the function's own are the end.
  bool TakeParentheses() {
    if (StartsWith(text_, at_, "(anonymous namespace)")) {
      Copy(Behind(text_, at_));
      return true;
    }
    at_ = Behind(text_, at_);
    if (StartsWith(text_, at_, " const::")) at_ += std::string_view(" const").size();
    return StartsWith(text_, at_, "::") || out_ == "decltype";
  }

  // "{lambda(int)#1}" becomes "{lambda#1}".
  void TakeBraces() {
    const size_t end = Behind(text_, at_);
    while (at_ < end) {
      if (text_[at_] == '(') {
        at_ = Behind(text_, at_);
      } else {
        out_.push_back(text_[at_++]);
      }
    }
  }

  void Copy(size_t end) {
    out_ += text_.substr(at_, end - at_);
    at_ = end;
  }

  std::string_view text_;
  std::string out_;
  size_t at_ = 0;
  bool in_operator_ = false;
};

// What frames have in common that are in one function.
std::string Function(const Frame& frame) {
  if (!frame.function.empty()) return frame.function;
  return fmt::format("{}+{:#x}", frame.module, frame.offset);
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string NativeLabel(const Frame& frame) {
  const std::string file = BaseName(frame.file.empty() ? frame.module : frame.file);
  if (frame.function.empty()) return fmt::format("{}+{:#x}", file, frame.offset);
  return fmt::format("{} {}", file, ShortName(frame.function));
}

// In how many sites each function of native code is.
using Frequencies = absl::flat_hash_map<std::string, size_t>;

Frequencies CountFunctions(const std::vector<Site>& sites) {
  Frequencies counts;
  for (const Site& site : sites) {
    absl::flat_hash_set<std::string> seen;
    for (const Frame& frame : site.frames) {
      if (frame.kind == Frame::Kind::kNative) seen.insert(Function(frame));
    }
    for (const std::string& function : seen) ++counts[function];
  }
  return counts;
}

std::string LabelOf(const Site& site, const Frequencies& counts, size_t sites) {
  if (site.frames.empty()) return fmt::format("site {:#x}", site.id);
  const bool python = std::any_of(site.frames.begin(), site.frames.end(), [](const Frame& frame) {
    return frame.kind == Frame::Kind::kPython;
  });
  if (python) return plan::SiteLabel(site);
  const size_t common = std::max(kNeverCommon, sites / kCommonPart);
  const Frame* rarest = nullptr;
  size_t least = 0;
  for (const Frame& frame : site.frames) {
    const size_t count = counts.at(Function(frame));
    if (rarest == nullptr || count < least) rarest = &frame, least = count;
    if (count <= common) break;
  }
  return NativeLabel(*rarest);
}

}  // namespace

std::string Demangled(const std::string& name) {
  if (name.rfind("_Z", 0) != 0) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

std::string ShortName(const std::string& name) {
  const std::string full = Demangled(name);
  return Shortener(full).Shorten();
}

SiteNames::SiteNames(const std::vector<Site>& sites) {
  const Frequencies counts = CountFunctions(sites);
  for (const Site& site : sites) names_.emplace(site.id, LabelOf(site, counts, sites.size()));
}

std::string SiteNames::Of(uint64_t site) const {
  if (site == 0) return "unknown site";
  const auto found = names_.find(site);
  return found == names_.end() ? fmt::format("site {:#x}", site) : found->second;
}

}  // namespace ebt::report
