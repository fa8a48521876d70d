// The front runs on every glibc since 2.28, so what glibc 2.34 moved into libc.so.6 is asked
// for under its first version, which both have.
#ifndef EBBTIDE_HOOKS_LIBC_VERSIONS_H_
#define EBBTIDE_HOOKS_LIBC_VERSIONS_H_

asm(".symver dlopen, dlopen@GLIBC_2.2.5");
asm(".symver dlvsym, dlvsym@GLIBC_2.2.5");
asm(".symver dladdr, dladdr@GLIBC_2.2.5");
asm(".symver dlerror, dlerror@GLIBC_2.2.5");

#endif  // EBBTIDE_HOOKS_LIBC_VERSIONS_H_
