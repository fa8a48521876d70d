// The page without its data, made from page/ when this is built.
#ifndef EBBTIDE_SRC_REPORT_HTML_PAGE_H_
#define EBBTIDE_SRC_REPORT_HTML_PAGE_H_

#include <string_view>

namespace ebt::report {

extern const std::string_view kPageHead;  // up to where the data stands
extern const std::string_view kPageTail;  // the rest: the program

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_HTML_PAGE_H_
