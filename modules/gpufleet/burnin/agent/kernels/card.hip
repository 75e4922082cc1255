// The kernels of card.comp for HIP, whose runtime compiler takes this text on the node.
//
// Every kernel has the same interface: three buffers of 32-bit words and four numbers. Only what every compiler of HIP
// has is used, so that the tests can also compile the same text for each processor and for the host.
// kernel_source.py defines the constants in capitals.
typedef unsigned int u32;
struct alignas(16) vec4 { u32 words[4]; };

#define KERNEL(name) extern "C" __global__ void __launch_bounds__(THREADS) \
  name(u32 *first, u32 *second, u32 *third, u32 n0, u32 n1, u32 n2, u32 n3)
#define PLACES(place) for (u32 step = 0, place = blockIdx.x * THREADS * VECTORS + threadIdx.x; step < VECTORS; \
  step++, place += THREADS)

static __device__ u32 mix(u32 value) {
  value = (value ^ (value >> 16)) * 0x7feb352du;
  value = (value ^ (value >> 15)) * 0x846ca68bu;
  return value ^ (value >> 16);
}

static __device__ u32 small_integer(u32 hashed) { return (hashed >> 28) - 8u; }
static __device__ u32 weight(u32 column) { return mix(column + WEIGHT_SEED) | 1u; }
static __device__ float as_float(u32 word) { return __builtin_bit_cast(float, word); }
static __device__ u32 as_word(float value) { return __builtin_bit_cast(u32, value); }

static __device__ vec4 pattern(u32 place, u32 seed, u32 keep, u32 flip) {
  const u32 factors[4] = {1u, FACTOR_1, FACTOR_2, FACTOR_3};
  u32 hashed = mix(place + seed);
  vec4 made;
  for (int number = 0; number < 4; number++) made.words[number] = ((hashed * factors[number]) & keep) ^ flip;
  return made;
}

static __device__ void compare(vec4 left, vec4 right, u32 place, u32 *counts) {
  u32 bits = 0;
  for (int number = 0; number < 4; number++) bits |= left.words[number] ^ right.words[number];
  if (!bits) return;
  __atomic_fetch_add(&counts[0], 1u, __ATOMIC_RELAXED);
  __atomic_fetch_or(&counts[2], bits, __ATOMIC_RELAXED);
  u32 lowest = __atomic_load_n(&counts[1], __ATOMIC_RELAXED);
  while (place < lowest &&
         !__atomic_compare_exchange_n(&counts[1], &lowest, place, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}

KERNEL(fill_pattern) { PLACES(place) ((vec4 *)first)[place] = pattern(place, n0, n1, n2); }
KERNEL(verify_pattern) {
  PLACES(place) compare(((vec4 *)first)[place], pattern(place, n0, n1, n2), place, second);
}
KERNEL(compare_vectors) { PLACES(place) compare(((vec4 *)first)[place], ((vec4 *)second)[place], place, third); }
KERNEL(copy_vectors) { PLACES(place) ((vec4 *)second)[place] = ((vec4 *)first)[place]; }

KERNEL(sum_vectors) {
  u32 total = 0;
  PLACES(place) {
    vec4 found = ((vec4 *)first)[place];
    u32 hashed = mix(place);
    for (u32 number = 0; number < 4; number++) total += mix((found.words[number] + number) ^ hashed);
  }
  __atomic_fetch_add(&second[0], total, __ATOMIC_RELAXED);
}

KERNEL(fill_operands) {
  PLACES(place) {
    u32 hashed = mix(place + n0), value = hashed;
    if (n1 == SMALL_INTEGERS) value = as_word((float)(int)small_integer(hashed));
    if (n1 == RANDOM_FLOATS) value = (hashed & 0x80ffffffu) | 0x3f000000u;
    first[place] = value;
  }
}

template <bool is_float> struct Element;
template <> struct Element<false> {
  typedef u32 type;
  static __device__ u32 read(u32 word) { return word; }
  static __device__ u32 write(u32 value) { return value; }
  static __device__ u32 add(u32 left, u32 right, u32 sum) { return left * right + sum; }
};
template <> struct Element<true> {
  typedef float type;
  static __device__ float read(u32 word) { return as_float(word); }
  static __device__ u32 write(float value) { return as_word(value); }
  static __device__ float add(float left, float right, float sum) { return __builtin_fmaf(left, right, sum); }
};

template <bool is_float>
static __device__ void multiply(const vec4 *a, const vec4 *b, u32 *c, u32 side, u32 tiles,
                                typename Element<is_float>::type *left, typename Element<is_float>::type *right) {
  typedef Element<is_float> E;
  u32 row_start = blockIdx.x / tiles * TILE, column_start = blockIdx.x % tiles * TILE;
  u32 row = threadIdx.x / (DEPTH / 4), part = threadIdx.x % (DEPTH / 4);
  u32 own_row = threadIdx.x / (TILE / WIDTH), own_column = threadIdx.x % (TILE / WIDTH);
  typename E::type sums[WIDTH][WIDTH] = {};
  for (u32 step = 0; step < side / DEPTH; step++) {
    u32 place = step * (DEPTH / 4) + part;
    vec4 from_a = a[(row_start + row) * (side / 4) + place], from_b = b[(column_start + row) * (side / 4) + place];
    for (u32 inner = 0; inner < 4; inner++) {
      left[(part * 4 + inner) * STRIDE + row] = E::read(from_a.words[inner]);
      right[(part * 4 + inner) * STRIDE + row] = E::read(from_b.words[inner]);
    }
    __syncthreads();
    for (u32 depth = 0; depth < DEPTH; depth++)
      for (u32 i = 0; i < WIDTH; i++)
        for (u32 j = 0; j < WIDTH; j++)
          sums[i][j] = E::add(left[depth * STRIDE + own_row + i * (TILE / WIDTH)],
                              right[depth * STRIDE + own_column + j * (TILE / WIDTH)], sums[i][j]);
    __syncthreads();
  }
  for (u32 i = 0; i < WIDTH; i++)
    for (u32 j = 0; j < WIDTH; j++)
      c[(row_start + own_row + i * (TILE / WIDTH)) * side + column_start + own_column + j * (TILE / WIDTH)] =
          E::write(sums[i][j]);
}

KERNEL(multiply_u32) {
  __shared__ u32 left[DEPTH * STRIDE];
  __shared__ u32 right[DEPTH * STRIDE];
  multiply<false>((const vec4 *)first, (const vec4 *)second, third, n0, n1, left, right);
}
KERNEL(multiply_f32) {
  __shared__ float left[DEPTH * STRIDE];
  __shared__ float right[DEPTH * STRIDE];
  multiply<true>((const vec4 *)first, (const vec4 *)second, third, n0, n1, left, right);
}

template <bool is_float> static __device__ u32 operand(u32 place, u32 seed) {
  u32 hashed = mix(place + seed);
  return is_float ? small_integer(hashed) : hashed;
}

template <bool is_float> static __device__ void weigh_b(u32 *sums, u32 side, u32 seed) {
  u32 column = blockIdx.x * THREADS + threadIdx.x, total = 0;
  if (column >= side) return;
  for (u32 row = 0; row < side; row++) total += operand<is_float>(row * side + column, seed) * weight(row);
  sums[column] = total;
}

template <bool is_float> static __device__ void weigh_a(const u32 *weights, u32 *sums, u32 side, u32 seed) {
  u32 row = blockIdx.x * THREADS + threadIdx.x, total = 0;
  if (row >= side) return;
  for (u32 column = 0; column < side; column++)
    total += operand<is_float>(row * side + column, seed) * weights[column];
  sums[row] = total;
}

template <bool is_float> static __device__ void weigh_c(const u32 *c, u32 *sums, u32 *counts, u32 side) {
  u32 row = blockIdx.x * THREADS + threadIdx.x, total = 0;
  if (row >= side) return;
  for (u32 column = 0; column < side; column++) {
    u32 word = c[row * side + column];
    if (is_float) {
      float value = as_float(word);
      int whole = (int)value;
      if ((float)whole != value) __atomic_fetch_add(&counts[0], 1u, __ATOMIC_RELAXED);
      word = (u32)whole;
    }
    total += word * weight(column);
  }
  sums[row] = total;
}

KERNEL(weigh_b_u32) { weigh_b<false>(first, n0, n1); }
KERNEL(weigh_b_f32) { weigh_b<true>(first, n0, n1); }
KERNEL(weigh_a_u32) { weigh_a<false>(first, second, n0, n1); }
KERNEL(weigh_a_f32) { weigh_a<true>(first, second, n0, n1); }
KERNEL(weigh_c_u32) { weigh_c<false>(first, second, third, n0); }
KERNEL(weigh_c_f32) { weigh_c<true>(first, second, third, n0); }
