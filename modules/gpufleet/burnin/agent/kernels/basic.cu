// The kernels of every NVIDIA GPU: operands, exact checks, memory patterns and chains of FMAs.
//
// Every value is a function of its place, so that a check never reads what it checks against from the memory under
// test. basic.ptx is what NVIDIA's compiler made of this text: tests/burnin/test_kernel_sources.py compiles it again, and
// tests/burnin/host_kernels.cpp runs it on the processor. kernel_source.py defines the constants in capitals.
typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)
#define EACH_VECTOR(part) for (u32 part = 0; part < VECTORS; part++)

// A 32-bit hash: Wellons' lowbias32.
static __device__ u32 mix(u32 value) {
  value = (value ^ (value >> 16)) * 0x7feb352du;
  value = (value ^ (value >> 15)) * 0x846ca68bu;
  return value ^ (value >> 16);
}

// A block's share of a linear pass is THREADS x VECTORS vectors of 16 bytes; a thread's are THREADS apart.
static __device__ u32 first_place() { return blockIdx.x * (THREADS * VECTORS) + threadIdx.x; }

// A small integer, or any mantissa of 10 bits: exact in 16 bits.
static __device__ u32 make_operand(u32 place, u32 seed, u32 random) {
  u32 hashed = mix(place + seed);
  return random ? (hashed & 0x80ffe000u) | 0x3f000000u : __float_as_uint((float)((int)(hashed >> 28) - 8));
}
static __device__ u32 to_bf16(u32 bits) { return bits >> 16; }
static __device__ u32 to_f16(u32 bits) {
  return bits ? (bits >> 16 & 0x8000u) | (((bits & 0x7fffffffu) >> 13) - (112u << 10)) : 0;
}

#define FILL_OPERANDS(kind) \
  KERNEL fill_operands_##kind(u32 *data, u32 seed, u32 random) { \
    u32 pair = blockIdx.x * THREADS + threadIdx.x; \
    data[pair] = to_##kind(make_operand(2 * pair, seed, random)) | \
                 to_##kind(make_operand(2 * pair + 1, seed, random)) << 16; \
  }
FILL_OPERANDS(f16)
FILL_OPERANDS(bf16)

// Exact arithmetic modulo 2^32 throughout: C w = A (B w) holds in every row, and any single wrong element breaks it,
// for an odd weight divides nothing out.
static __device__ u32 weight(u32 column) { return mix(column + WEIGHT_SEED) | 1; }
static __device__ u32 small_integer(u32 place) { return (mix(place) >> 28) - 8; }

KERNEL weigh_b(u32 *out, u32 rows, u32 depth, u32 seed) {
  u32 column = blockIdx.x * THREADS + threadIdx.x, sum = 0;
  if (column >= depth) return;
  for (u32 row = 0; row < rows; row++) sum += small_integer(row * depth + column + seed) * weight(row);
  out[column] = sum;
}

KERNEL weigh_a(u32 *out, const u32 *weights, u32 rows, u32 depth, u32 seed) {
  u32 row = blockIdx.x * THREADS + threadIdx.x, sum = 0;
  if (row >= rows) return;
  for (u32 column = 0; column < depth; column++) sum += small_integer(row * depth + column + seed) * weights[column];
  out[row] = sum;
}

// A block a row of C; elements that are not integers are counted.
KERNEL weigh_c(const float *matrix, u32 *sums, u64 *result, u32 columns) {
  u32 sum = 0;
  for (u32 column = threadIdx.x; column < columns; column += THREADS) {
    float value = matrix[(u64)blockIdx.x * columns + column];
    int whole = (int)value;
    if (value != (float)whole) atomicAdd(result, 1ull);
    sum += (u32)whole * weight(column);
  }
  atomicAdd(&sums[blockIdx.x], sum);
}

static __device__ uint4 make_pattern(u32 place, u32 seed, u32 keep, u32 flip) {
  u32 hashed = mix(place + seed);
  return make_uint4((hashed & keep) ^ flip, (hashed * FACTOR_1 & keep) ^ flip, (hashed * FACTOR_2 & keep) ^ flip,
                    (hashed * FACTOR_3 & keep) ^ flip);
}

// result[0] counts wrong vectors, result[1] is the lowest wrong one, result[2] collects the bits that differ.
static __device__ void compare(uint4 left, uint4 right, u32 place, u64 *result) {
  u32 bits = (left.x ^ right.x) | (left.y ^ right.y) | (left.z ^ right.z) | (left.w ^ right.w);
  if (!bits) return;
  atomicAdd(&result[0], 1ull);
  atomicMin(&result[1], (u64)place);
  atomicOr(&result[2], (u64)bits);
}

KERNEL fill_pattern(uint4 *data, u32 seed, u32 keep, u32 flip) {
  u32 first = first_place();
  EACH_VECTOR(part) data[first + part * THREADS] = make_pattern(first + part * THREADS, seed, keep, flip);
}

// Load a thread's vectors: all are in flight before the first is used.
static __device__ void load(const uint4 *data, uint4 *found) {
  data += first_place();
  EACH_VECTOR(part) found[part] = data[part * THREADS];
}

KERNEL verify_pattern(const uint4 *data, u64 *result, u32 seed, u32 keep, u32 flip) {
  u32 first = first_place();
  uint4 found[VECTORS];
  load(data, found);
  EACH_VECTOR(part) {
    u32 place = first + part * THREADS;
    compare(found[part], make_pattern(place, seed, keep, flip), place, result);
  }
}

KERNEL compare_words(const uint4 *left, const uint4 *right, u64 *result) {
  u32 first = first_place();
  uint4 a[VECTORS], b[VECTORS];
  load(left, a);
  load(right, b);
  EACH_VECTOR(part) compare(a[part], b[part], first + part * THREADS, result);
}

KERNEL copy_vectors(const uint4 *source, uint4 *target) {
  uint4 found[VECTORS];
  load(source, found);
  target += first_place();
  EACH_VECTOR(part) target[part * THREADS] = found[part];
}

// A sum over all words, each weighed by its place: two GPUs' results are compared by it.
KERNEL sum_words(const uint4 *data, u64 *result) {
  u32 first = first_place();
  u64 sum = 0;
  uint4 found[VECTORS];
  load(data, found);
  EACH_VECTOR(part) {
    u32 hashed = mix(first + part * THREADS) | 1;
    sum += (u64)hashed * found[part].x + (u64)(hashed * FACTOR_1) * found[part].y +
           (u64)(hashed * FACTOR_2) * found[part].z + (u64)(hashed * FACTOR_3) * found[part].w;
  }
  atomicAdd(result, sum);
}

// Chaotic orbits x = x * x + c by FMAs alone. IEEE 754 defines an FMA exactly, so every thread and the controller agree
// in all bits; one wrong bit grows. starts has CHAINS numbers and c, expected the orbits' ends.
#define ORBIT(kind, number, word, fuse, bits) \
  KERNEL orbit_##kind(const number *starts, const word *expected, u64 *result, u32 steps) { \
    number x[CHAINS], c = starts[CHAINS]; \
    for (u32 chain = 0; chain < CHAINS; chain++) x[chain] = starts[chain]; \
    for (u32 step = 0; step < steps; step++) \
      for (u32 chain = 0; chain < CHAINS; chain++) x[chain] = fuse(x[chain], x[chain], c); \
    for (u32 chain = 0; chain < CHAINS; chain++) \
      if ((word)bits(x[chain]) != expected[chain]) atomicAdd(result, 1ull); \
  }
ORBIT(f32, float, u32, __fmaf_rn, __float_as_uint)
ORBIT(f64, double, u64, __fma_rn, __double_as_longlong)
