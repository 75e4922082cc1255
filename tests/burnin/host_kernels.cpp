// The kernels of basic.cu on this processor, one thread after the other: the same text that NVIDIA's compiler takes.
#include <cmath>
#include <cstring>
#include <utility>

namespace {
struct Index { unsigned x; } threadIdx, blockIdx;
struct alignas(16) uint4 { unsigned x, y, z, w; };
uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
template <class To, class From> To copy_bits(From value) { To bits; memcpy(&bits, &value, sizeof bits); return bits; }
unsigned __float_as_uint(float value) { return copy_bits<unsigned>(value); }
long long __double_as_longlong(double value) { return copy_bits<long long>(value); }
float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
template <class Word> void atomicAdd(Word *place, Word value) { *place += value; }
template <class Word> void atomicMin(Word *place, Word value) { if (value < *place) *place = value; }
template <class Word> void atomicOr(Word *place, Word value) { *place |= value; }
}  // namespace
#define __global__
#define __device__
#define __launch_bounds__(threads)
#include "basic.cu"

namespace {
template <class... Types, size_t... Numbers>
int run_all(void (*kernel)(Types...), unsigned blocks, void **arguments, std::index_sequence<Numbers...>) {
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
    for (threadIdx.x = 0; threadIdx.x < THREADS; threadIdx.x++) kernel(*(Types *)arguments[Numbers]...);
  return 0;
}
template <class... Types> int run(void (*kernel)(Types...), unsigned blocks, void **arguments) {
  return run_all(kernel, blocks, arguments, std::index_sequence_for<Types...>());
}
}  // namespace

// Returns 0, or CUDA's code for a name that is not found.
#define RUN(kernel) if (!strcmp(name, #kernel)) return run(kernel, blocks, arguments)
extern "C" int run_basic_kernel(const char *name, unsigned blocks, void **arguments) {
  RUN(fill_operands_f16); RUN(fill_operands_bf16); RUN(weigh_b); RUN(weigh_a); RUN(weigh_c);
  RUN(fill_pattern); RUN(verify_pattern); RUN(compare_words); RUN(copy_vectors); RUN(sum_words);
  RUN(orbit_f32); RUN(orbit_f64);
  return 500;
}
