#include <gtest/gtest.h>

#include "src/report/names.h"

namespace ebt::report {
namespace {

using callsite::Frame;
using callsite::Site;

TEST(Demangled, CppNamesReadAsWritten) {
  EXPECT_EQ(Demangled("_ZN4demo7Trainer7ForwardEi"), "demo::Trainer::Forward(int)");
}

TEST(Demangled, OtherNamesStay) {
  for (const char* name : {"", "triton_poi_fused_add_0", "kernel#12", "_Z", "_ZN4dem"})
    EXPECT_EQ(Demangled(name), name);
}

TEST(ShortName, LeavesOutReturnTypeParametersAndMostTemplateArguments) {
  EXPECT_EQ(ShortName("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<"
                      "float>, std::array<char*, 1ul> >(int, at::native::FillFunctor<float>)"),
            "at::native::vectorized_elementwise_kernel<4, ...>");
  EXPECT_EQ(ShortName("_ZN4demo7Trainer7ForwardEi"), "demo::Trainer::Forward");
}

TEST(ShortName, ALoneShortArgumentStays) {
  EXPECT_EQ(ShortName("void fill<float>(float*)"), "fill<float>");
  EXPECT_EQ(ShortName("void run<cutlass::gemm::Kernel>(int)"), "run<...>");
  EXPECT_EQ(ShortName("void run<std::array<int, 4> >(int)"), "run<...>");
  EXPECT_EQ(ShortName("f<>()"), "f<>");
}

TEST(ShortName, LocalFunctionsKeepTheirFunction) {
  EXPECT_EQ(ShortName("at::copy(at::Tensor&)::{lambda(int, float)#2}::operator()(int) const"),
            "at::copy::{lambda#2}::operator()");
  EXPECT_EQ(ShortName("A::f(int) const::B::g()"), "A::f::B::g");
}

TEST(ShortName, AnonymousNamespacesStay) {
  EXPECT_EQ(ShortName("void (anonymous namespace)::softmax<float>(float*)"),
            "(anonymous namespace)::softmax<float>");
  EXPECT_EQ(ShortName("at::(anonymous namespace)::f(int)"), "at::(anonymous namespace)::f");
}

TEST(ShortName, OperatorsAreNames) {
  EXPECT_EQ(ShortName("bool operator< <int>(A<int>, A<int>)"), "operator< <int>");
  EXPECT_EQ(ShortName("ns::A::operator->() const"), "ns::A::operator->");
  EXPECT_EQ(ShortName("operator new(unsigned long)"), "operator new");
  EXPECT_EQ(ShortName("std::ostream& std::operator<< <char>(std::ostream&, char)"),
            "std::operator<< <char>");
}

TEST(ShortName, PlainNamesStay) {
  for (const char* name : {"ebt_mix", "kernel#3", "Cijk_Alik_Bljk_SB_MT128x64", "graph"})
    EXPECT_EQ(ShortName(name), name);
}

TEST(ShortName, UnbalancedTextIsNoTrap) {
  for (const char* name : {"<", ">", "a<b", "a)", "((", "{", "}", "f(", "operator", "a<(>", "->",
                           "operator<", " ", "a b", "(anonymous namespace)", "f<a>>>", "[)"}) {
    const std::string shortened = ShortName(name);
    EXPECT_LE(shortened.size(), std::string(name).size() + 8) << name;
  }
}

Frame Native(std::string function, uint64_t offset = 1) {
  return {Frame::Kind::kNative, "ab12ab12", offset, std::move(function), "/opt/lib/libjob.so"};
}
Frame Python(std::string file, uint64_t line, std::string function) {
  return {Frame::Kind::kPython, std::move(file), line, std::move(function), ""};
}

TEST(SiteNames, TheInnermostPythonFrameNamesASite) {
  const SiteNames names(std::vector<Site>{{1,
                                           {Native("allocate"), Native("at::empty"),
                                            Python("/usr/lib/torch/nn/functional.py", 12, "linear"),
                                            Python("/home/me/train.py", 3, "main")}}});
  EXPECT_EQ(names.Of(1), "torch/nn/functional.py:12 linear");
}

// Ten sites: the allocator and the thread's loop are in all of them, "grow" in three.
TEST(SiteNames, TheInnermostNativeFunctionThatIsNotCommonNamesASite) {
  std::vector<Site> sites;
  for (uint64_t id = 1; id <= 10; ++id) {
    Site site{id, {Native("allocate(int)")}};
    if (id <= 3) site.frames.push_back(Native("grow<float>(int)"));
    site.frames.push_back(Native("op" + std::to_string(id) + "(int)"));
    site.frames.push_back(Native("loop()"));
    sites.push_back(site);
  }
  EXPECT_EQ(SiteNames(sites).Of(1), "libjob.so op1");
  EXPECT_EQ(SiteNames(sites).Of(10), "libjob.so op10");
  sites.erase(sites.begin());  // now it is in two
  EXPECT_EQ(SiteNames(sites).Of(2), "libjob.so grow<float>");
}

TEST(SiteNames, WhereAllIsCommonTheRarestNamesASite) {
  std::vector<Site> sites;
  for (uint64_t id = 1; id <= 6; ++id) {
    Site site{id, {Native("allocate()"), Native("step()")}};
    if (id > 1) site.frames.insert(site.frames.begin() + 1, Native("other()"));
    sites.push_back(site);
  }
  EXPECT_EQ(SiteNames(sites).Of(1), "libjob.so allocate");  // in six, as the other
  EXPECT_EQ(SiteNames(sites).Of(2), "libjob.so other");     // in five
}

TEST(SiteNames, FramesWithoutANameAreToldByTheirPlace) {
  const SiteNames names(std::vector<Site>{{1, {Native("", 0x1f)}}});
  EXPECT_EQ(names.Of(1), "libjob.so+0x1f");
}

TEST(SiteNames, UnknownSitesHaveANameToo) {
  const SiteNames names(std::vector<Site>{{2, {}}});
  EXPECT_EQ(names.Of(0), "unknown site");
  EXPECT_EQ(names.Of(2), "site 0x2");
  EXPECT_EQ(names.Of(3), "site 0x3");
}

}  // namespace
}  // namespace ebt::report
