// Whose is the next definition after the first library's?
#include <cstdio>

extern "C" {
const char* FrontNext();
const char* FrontNextFirst();
const char* FrontNextSecond();
}

int main() {
  std::puts(FrontNextFirst());
  std::puts(FrontNext());
  std::puts(FrontNextSecond());
}
