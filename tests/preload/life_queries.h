// Things that the program of life_program.cc does: it asks, and it exports. Its first
// allocations are a linear block of 2 MiB and a stream-ordered one of 1 MiB.
#ifndef EBBTIDE_TESTS_PRELOAD_LIFE_QUERIES_H_
#define EBBTIDE_TESTS_PRELOAD_LIFE_QUERIES_H_

namespace ebt::test {

// Prints every answer that can be had about the blocks, in a form that does not depend on
// addresses. What differs from a native run is wrong.
int Queries();
// Prints what a program reads of the default pool while it uses it, and of host memory behind
// device addresses.
int Pools();
// Prints the result of every way to hand a block to others.
int Exports();
// Prints what work of no bytes answers, wherever in a block or outside of all it is.
int NoBytes();

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_PRELOAD_LIFE_QUERIES_H_
