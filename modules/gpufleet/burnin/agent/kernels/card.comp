#version 450
#extension GL_EXT_control_flow_attributes : require
// The kernels of cards without CUDA for Vulkan: patterns, operands, tiled matrix products and exact checks of them.
//
// As in basic.cu every value is a function of its place. Integers are exact by definition (modulo 2^32). Floats are
// exact where operands are small integers; with random mantissas the order of all additions is fixed, so a device must
// give the same bits every time. card.hip holds the same kernels for HIP. kernel_source.py defines the constants in
// capitals, and what glslang makes of each kernel is NAME.spv: KERNEL is its function, ELEMENT is uint or float.
//
// Every kernel has the same interface: three buffers of 32-bit words and four numbers.
layout(local_size_x = THREADS) in;
layout(binding = 0) buffer FirstWords { uint first[]; };
layout(binding = 1) buffer SecondWords { uint second[]; };
layout(binding = 2) buffer ThirdWords { uint third[]; };
layout(binding = 0) buffer FirstVectors { uvec4 first_vectors[]; };
layout(binding = 1) buffer SecondVectors { uvec4 second_vectors[]; };
layout(push_constant) uniform Numbers { uint n0, n1, n2, n3; };

#define group gl_WorkGroupID.x
#define thread gl_LocalInvocationIndex
// The places of a linear pass that belong to this thread.
#define EACH_PLACE(place) [[unroll]] for (uint step = 0, place = group * THREADS * VECTORS + thread; step < VECTORS; \
  step++, place += THREADS)

// A 32-bit hash: Wellons' lowbias32.
uint mix_bits(uint value) {
  value = (value ^ (value >> 16)) * 0x7feb352du;
  value = (value ^ (value >> 15)) * 0x846ca68bu;
  return value ^ (value >> 16);
}

uint small_integer(uint hashed) { return (hashed >> 28) - 8u; }
// Odd, so that no wrong element is divided out.
uint weight(uint column) { return mix_bits(column + WEIGHT_SEED) | 1u; }

// n0: seed, n1: bits that are kept, n2: bits that are flipped.
uvec4 pattern(uint place) {
  return (mix_bits(place + n0) * uvec4(1u, FACTOR_1, FACTOR_2, FACTOR_3) & n1) ^ n2;
}

// The counts: how many vectors differ, the first one, and which bits.
#define COMPARE(left, right, place, counts) { \
  uvec4 different = left ^ right; \
  if (any(notEqual(different, uvec4(0)))) { \
    atomicAdd(counts[0], 1u); \
    atomicMin(counts[1], place); \
    atomicOr(counts[2], different.x | different.y | different.z | different.w); \
  } \
}

void fill_pattern() { EACH_PLACE(place) first_vectors[place] = pattern(place); }
void verify_pattern() { EACH_PLACE(place) COMPARE(first_vectors[place], pattern(place), place, second) }
void compare_vectors() { EACH_PLACE(place) COMPARE(first_vectors[place], second_vectors[place], place, third) }
void copy_vectors() { EACH_PLACE(place) second_vectors[place] = first_vectors[place]; }

void sum_vectors() {
  uint total = 0;
  EACH_PLACE(place) {
    uvec4 found = first_vectors[place] + uvec4(0, 1, 2, 3) ^ mix_bits(place);
    total += mix_bits(found.x) + mix_bits(found.y) + mix_bits(found.z) + mix_bits(found.w);
  }
  atomicAdd(second[0], total);
}

// n0: seed, n1: how the operands are made.
void fill_operands() {
  EACH_PLACE(place) {
    uint hashed = mix_bits(place + n0), value = hashed;
    if (n1 == SMALL_INTEGERS) value = floatBitsToUint(float(int(small_integer(hashed))));
    if (n1 == RANDOM_FLOATS) value = hashed & 0x80ffffffu | 0x3f000000u;
    first[place] = value;
  }
}

float read_word(uint word, float kind) { return uintBitsToFloat(word); }
uint read_word(uint word, uint kind) { return word; }
uvec4 to_words(vec4 values) { return floatBitsToUint(values); }
uvec4 to_words(uvec4 values) { return values; }
vec4 multiply_add(float left, vec4 right, vec4 sums) { return fma(vec4(left), right, sums); }
uvec4 multiply_add(uint left, uvec4 right, uvec4 sums) { return left * right + sums; }

#define VECTOR_OF_uint uvec4
#define VECTOR_OF_float vec4
#define JOIN(left, right) left##right
#define VECTOR_OF(kind) JOIN(VECTOR_OF_, kind)
#define VECTOR VECTOR_OF(ELEMENT)
shared ELEMENT left[DEPTH * STRIDE], right[DEPTH * STRIDE];

// C = A B^T. n0: side, n1: tiles in a row. A thread moves one vector of A and of B to shared memory for each slice of
// the depth, and computes WIDTH x WIDTH elements of the tile, SPREAD rows and columns apart.
#define SPREAD (TILE / WIDTH)
void multiply() {
  uint row_start = group / n1 * TILE, column_start = group % n1 * TILE;
  uint row = thread / (DEPTH / 4), part = thread % (DEPTH / 4);
  uint own_row = thread / SPREAD, own_column = thread % SPREAD;
  VECTOR sums[WIDTH] = VECTOR[](VECTOR(0), VECTOR(0), VECTOR(0), VECTOR(0));
  for (uint slice = 0; slice < n0 / DEPTH; slice++) {
    uint place = slice * (DEPTH / 4) + part;
    uvec4 from_a = first_vectors[(row_start + row) * (n0 / 4) + place];
    uvec4 from_b = second_vectors[(column_start + row) * (n0 / 4) + place];
    [[unroll]] for (uint inner = 0; inner < 4; inner++) {
      left[(part * 4 + inner) * STRIDE + row] = read_word(from_a[inner], ELEMENT(0));
      right[(part * 4 + inner) * STRIDE + row] = read_word(from_b[inner], ELEMENT(0));
    }
    barrier();
    [[unroll]] for (uint depth = 0; depth < DEPTH; depth++) {
      uint a = depth * STRIDE + own_row, b = depth * STRIDE + own_column;
      VECTOR columns = VECTOR(right[b], right[b + SPREAD], right[b + 2 * SPREAD], right[b + 3 * SPREAD]);
      [[unroll]] for (uint i = 0; i < WIDTH; i++) sums[i] = multiply_add(left[a + i * SPREAD], columns, sums[i]);
    }
    barrier();
  }
  [[unroll]] for (uint i = 0; i < WIDTH; i++) {
    uvec4 words = to_words(sums[i]);
    uint place = (row_start + own_row + i * SPREAD) * n0 + column_start + own_column;
    [[unroll]] for (uint j = 0; j < WIDTH; j++) third[place + j * SPREAD] = words[j];
  }
}

// The integer that an operand is.
uint operand(uint place, float kind) { return small_integer(mix_bits(place + n1)); }
uint operand(uint place, uint kind) { return mix_bits(place + n1); }

// Sum each column of B with the weights. n0: side, n1: seed.
void weigh_b() {
  uint column = group * THREADS + thread, total = 0;
  if (column >= n0) return;
  for (uint row = 0; row < n0; row++) total += operand(row * n0 + column, ELEMENT(0)) * weight(row);
  first[column] = total;
}

// Sum each row of A with the sums of B. n0: side, n1: seed.
void weigh_a() {
  uint row = group * THREADS + thread, total = 0;
  if (row >= n0) return;
  for (uint column = 0; column < n0; column++) total += operand(row * n0 + column, ELEMENT(0)) * first[column];
  second[row] = total;
}

// The integer that an element is; a fraction is counted.
uint whole(uint word, uint kind) { return word; }
uint whole(uint word, float kind) {
  float value = uintBitsToFloat(word);
  if (float(int(value)) != value) atomicAdd(third[0], 1u);
  return uint(int(value));
}

// Sum each row of C with the weights. n0: side.
void weigh_c() {
  uint row = group * THREADS + thread, total = 0;
  if (row >= n0) return;
  for (uint column = 0; column < n0; column++) total += whole(first[row * n0 + column], ELEMENT(0)) * weight(column);
  second[row] = total;
}

void main() { KERNEL(); }
