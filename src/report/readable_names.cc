#include "src/report/readable_names.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "src/plan/hotness.h"

namespace ebt::report {
namespace {

using callsite::Frame;
using callsite::Site;

std::string Demangle(const std::string& name) {
  if (name.rfind("_Z", 0) != 0) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::string FrameText(const Frame& frame) {
  if (frame.kind == Frame::Kind::kPython)
    return fmt::format("{}:{} {}", frame.module, frame.offset, frame.function);
  const std::string module = LastPart(frame.file.empty() ? frame.module : frame.file);
  if (frame.function.empty()) return fmt::format("{}+{:#x}", module, frame.offset);
  return fmt::format("{} ({})", Demangle(frame.function), module);
}

std::string Clipped(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes < 3 ? 0 : bytes - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

ReadableNames RecordedNames(const profile::Profile& profile) {
  auto sites = std::make_shared<absl::flat_hash_map<uint64_t, const Site*>>();
  for (const Site& site : profile.sites) sites->emplace(site.id, &site);
  ReadableNames names;
  names.frames = [sites](uint64_t id) {
    std::vector<std::string> frames;
    const auto found = sites->find(id);
    if (found == sites->end()) return frames;
    for (const Frame& frame : found->second->frames) frames.push_back(FrameText(frame));
    return frames;
  };
  names.site = [sites](uint64_t id) {
    const auto found = sites->find(id);
    if (found != sites->end()) return plan::SiteLabel(*found->second);
    return id == 0 ? std::string("unknown site") : fmt::format("site {:#x}", id);
  };
  names.function = [](const std::string& name) { return Demangle(name); };
  return names;
}

}  // namespace ebt::report
