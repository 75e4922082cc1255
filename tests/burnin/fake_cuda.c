/* A stand-in for NVIDIA's libcuda.so.1 without a GPU: gpufleet's own test double, compiled by the tests.

   Device memory is the host's; matrix products are computed here in C, all other kernels from the agent's own source
   (host_kernels.cpp). It refuses what the driver
   refuses: unknown functions, freed or foreign addresses, modules that are not PTX, launches without a context.
   FAKE_CUDA_DEVICES, FAKE_CUDA_CAPABILITY (as 90), FAKE_CUDA_FLIP (kernel name: one bit of its output is wrong,
   the third time it runs), FAKE_CUDA_FAIL (function:code). */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NO_CONTEXT = 201, BAD_PTX = 218, NOT_FOUND = 500 };
enum { BLOCKS = 4096, KERNELS = 64 };
typedef struct { char *start; size_t size; int device; } Range;
typedef struct { char name[64]; int shared_limit; } Function;
typedef struct { char *text; } Module;

const int gpufleet_fake_driver = 1; /* what the agent looks for, so that nobody takes the numbers for real */
static Range ranges[BLOCKS];
static int range_count, initialised, current = -1, runs;
static size_t in_use;
static Function functions[KERNELS];
static int function_count;

static int setting(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}
static size_t capacity(void) { return (size_t)setting("FAKE_CUDA_MIB", 64) << 20; }
static int failure(const char *name) {
  const char *text = getenv("FAKE_CUDA_FAIL"), *colon = text ? strchr(text, ':') : NULL;
  if (!colon || strlen(name) != (size_t)(colon - text) || strncmp(text, name, colon - text)) return OK;
  return atoi(colon + 1);
}
#define BEGIN do { int code = failure(__func__); if (code) return code; if (!initialised) return 3; } while (0)
#define NEED_CONTEXT do { if (current < 0) return NO_CONTEXT; } while (0)

static int owns(uint64_t address, size_t size) {
  for (int i = 0; i < range_count; i++)
    if ((char *)address >= ranges[i].start && (char *)address + size <= ranges[i].start + ranges[i].size) return 1;
  return 0;
}

int cuInit(unsigned flags) { int code = failure("cuInit"); if (code) return code; initialised = 1; return flags ? INVALID : OK; }
int cuDriverGetVersion(int *version) { *version = 13000; return OK; }
int cuGetErrorName(int code, const char **text) { *text = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE"; return OK; }
int cuGetErrorString(int code, const char **text) { (void)code; *text = "from the stand-in driver"; return OK; }
int cuDeviceGetCount(int *count) {
  BEGIN;
  *count = getenv("CUDA_VISIBLE_DEVICES") ? 1 : setting("FAKE_CUDA_DEVICES", 1); /* as if it named one GPU */
  return OK;
}
int cuDeviceGet(int *device, int ordinal) { BEGIN; if (ordinal >= setting("FAKE_CUDA_DEVICES", 1)) return 101; *device = ordinal; return OK; }
int cuDeviceGetName(char *name, int size, int device) { BEGIN; snprintf(name, size, "FAKE GPU %d", device); return OK; }
int cuDeviceGetPCIBusId(char *text, int size, int device) { BEGIN; snprintf(text, size, "0000:%02X:00.0", device + 1); return OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  BEGIN; (void)device;
  int capability = setting("FAKE_CUDA_CAPABILITY", 90);
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : attribute == 16 ? 1 : attribute == 97 ? 232448 : 0;
  return OK;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { BEGIN; *context = (void *)(intptr_t)(device + 1); return OK; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return OK; }
int cuCtxSetCurrent(void *context) { BEGIN; current = (int)(intptr_t)context - 1; return OK; }
int cuCtxSynchronize(void) { BEGIN; NEED_CONTEXT; return OK; }
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) { BEGIN; NEED_CONTEXT; *total = capacity(); *free_bytes = *total - in_use; return OK; }
int cuMemAlloc_v2(uint64_t *address, size_t size) {
  BEGIN; NEED_CONTEXT;
  if (!size || range_count == BLOCKS) return INVALID;
  if (in_use + size > capacity()) return OUT_OF_MEMORY;
  void *start = NULL;
  if (posix_memalign(&start, 512, size)) return OUT_OF_MEMORY;
  ranges[range_count++] = (Range){start, size, current};
  in_use += size;
  *address = (uint64_t)start;
  return OK;
}
int cuMemFree_v2(uint64_t address) {
  BEGIN; NEED_CONTEXT;
  for (int i = 0; i < range_count; i++)
    if (ranges[i].start == (char *)address) {
      if (ranges[i].device != current) return INVALID;
      in_use -= ranges[i].size; free(ranges[i].start); ranges[i] = ranges[--range_count];
      return OK;
    }
  return INVALID;
}
int cuMemsetD8_v2(uint64_t address, unsigned char byte, size_t size) { BEGIN; NEED_CONTEXT; if (!owns(address, size)) return INVALID; memset((void *)address, byte, size); return OK; }
int cuMemHostAlloc(void **address, size_t size, unsigned flags) { BEGIN; NEED_CONTEXT; (void)flags; *address = malloc(size); return *address ? OK : OUT_OF_MEMORY; }
int cuMemFreeHost(void *address) { BEGIN; free(address); return OK; }
static int copy(void *target, const void *source, size_t size, uint64_t device) {
  NEED_CONTEXT;
  if (!owns(device, size)) return INVALID;
  memcpy(target, source, size);
  return OK;
}
int cuMemcpyHtoD_v2(uint64_t target, const void *source, size_t size) { BEGIN; return copy((void *)target, source, size, target); }
int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t size) { BEGIN; return copy(target, (void *)source, size, source); }
int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t size, void *stream) { BEGIN; (void)stream; return copy((void *)target, source, size, target); }
int cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t size, void *stream) { 
  BEGIN; (void)stream;
  int code = copy(target, (void *)source, size, source);
  const char *flip = getenv("FAKE_CUDA_FLIP");
  if (!code && flip && !strcmp(flip, "copy")) ((char *)target)[size / 2] ^= 1;
  return code;
}
int cuMemcpyPeerAsync(uint64_t target, void *to, uint64_t source, void *from, size_t size, void *stream) {
  BEGIN; (void)stream;
  if (!to || !from || !owns(source, size)) return INVALID;
  return copy((void *)target, (void *)source, size, target);
}
int cuDeviceCanAccessPeer(int *can, int device, int peer) { BEGIN; *can = device != peer; return OK; }
int cuCtxEnablePeerAccess(void *context, unsigned flags) { BEGIN; return context && !flags ? OK : INVALID; }
int cuStreamCreate(void **stream, unsigned flags) { BEGIN; NEED_CONTEXT; (void)flags; *stream = (void *)1; return OK; }
int cuStreamSynchronize(void *stream) { BEGIN; (void)stream; return OK; }
int cuEventCreate(void **event, unsigned flags) { BEGIN; NEED_CONTEXT; (void)flags; *event = calloc(1, sizeof(double)); return OK; }
int cuEventRecord(void *event, void *stream) {
  BEGIN; (void)stream;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *(double *)event = now.tv_sec * 1e3 + now.tv_nsec / 1e6;
  return OK;
}
int cuEventSynchronize(void *event) { BEGIN; return event ? OK : INVALID; }
int cuEventElapsedTime(float *ms, void *start, void *end) { BEGIN; *ms = (float)(*(double *)end - *(double *)start); return OK; }
int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) {
  BEGIN; NEED_CONTEXT;
  if (!strstr(image, "\n.version ") || !strstr(image, ".target sm_") || !strstr(image, ".address_size 64")) {
    for (unsigned i = 0; i < count; i++)
      if (options[i] == 5) strcpy(values[i], "ptxas: syntax error (stand-in)");
    return BAD_PTX;
  }
  Module *loaded = malloc(sizeof *loaded);
  loaded->text = strdup(image);
  *module = loaded;
  return OK;
}
int cuModuleUnload(void *module) { BEGIN; free(((Module *)module)->text); free(module); return OK; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  BEGIN;
  char entry[96];
  snprintf(entry, sizeof entry, ".entry %s(", name);
  if (!strstr(((Module *)module)->text, entry) || function_count == KERNELS) return NOT_FOUND;
  Function *known = &functions[function_count++];
  snprintf(known->name, sizeof known->name, "%s", name);
  known->shared_limit = 48 << 10;
  *function = known;
  return OK;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  BEGIN;
  if (attribute != 8 || value > 232448) return INVALID;
  ((Function *)function)->shared_limit = value;
  return OK;
}
int cuTensorMapEncodeTiled(void *map, int kind, uint32_t rank, void *address, const uint64_t *sizes, const uint64_t *strides,
                           const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
  BEGIN; (void)interleave; (void)promotion; (void)fill;
  if ((uintptr_t)map % 64 || rank != 2 || (kind != 6 && kind != 9) || (uintptr_t)address % 16) return INVALID;
  if (strides[0] != sizes[0] * 2 || strides[0] % 16 || box[0] > 256 || box[1] > 256 || steps[0] != 1 || steps[1] != 1) return INVALID;
  if (swizzle != 3 || box[0] * 2 > 128) return INVALID;
  memset(map, 0, 128);
  memcpy(map, &address, 8);
  return OK;
}

/* The kernels: products here, all others in host_kernels.cpp */
int run_basic_kernel(const char *name, unsigned blocks, void **arguments);
static float from_16(uint16_t half, int brain) {
  uint32_t bits = brain ? (uint32_t)half << 16 : (half & 0x7fff) ? ((uint32_t)(half & 0x8000) << 16) | ((((half >> 10) & 31) + 112U) << 23) | ((half & 0x3ffU) << 13) : (uint32_t)(half & 0x8000) << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
#define ARGUMENT(type, number) (*(type *)arguments[number])

static void multiply(const char *name, unsigned blocks, void **arguments) {
  int hopper = strstr(name, "sm_90a") != NULL, turing = strstr(name, "sm_7") != NULL, brain = strstr(name, "bf16") != NULL;
  const uint16_t *a, *b;
  if (hopper) { memcpy(&a, arguments[0], 8); memcpy(&b, arguments[1], 8); }
  else { a = ARGUMENT(const uint16_t *, 0); b = ARGUMENT(const uint16_t *, 1); }
  float *c = ARGUMENT(float *, 2);
  unsigned rows = ARGUMENT(uint32_t, 3) * 128, columns = ARGUMENT(uint32_t, 4) * (turing ? 128 : 256), depth = ARGUMENT(uint32_t, 5);
  if (blocks != ARGUMENT(uint32_t, 3) * ARGUMENT(uint32_t, 4)) return;
  float *left = malloc((size_t)rows * depth * 4), *right = malloc((size_t)columns * depth * 4);
  for (size_t i = 0; i < (size_t)rows * depth; i++) left[i] = from_16(a[i], brain);
  for (size_t j = 0; j < columns; j++)
    for (size_t k = 0; k < depth; k++) right[k * columns + j] = from_16(b[j * depth + k], brain);
  memset(c, 0, (size_t)rows * columns * 4);
  for (size_t i = 0; i < rows; i++)
    for (size_t k = 0; k < depth; k++)
      for (size_t j = 0; j < columns; j++) c[i * columns + j] += left[i * depth + k] * right[k * columns + j];
  free(left);
  free(right);
  const char *flip = getenv("FAKE_CUDA_FLIP");
  if (flip && !strcmp(flip, "matmul") && ++runs == 3) ((uint32_t *)c)[rows * columns / 2] ^= 1;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  BEGIN; NEED_CONTEXT; (void)stream; (void)extra;
  Function *kernel = function;
  const char *name = kernel->name, *flip = getenv("FAKE_CUDA_FLIP");
  if (!gx || gy != 1 || gz != 1 || by != 1 || bz != 1 || bx > 1024 || (int)shared > kernel->shared_limit) return INVALID;
  uint64_t vectors = (uint64_t)gx * 1024;
  if (!strncmp(name, "matmul_", 7)) { multiply(name, gx, arguments); return OK; }
  if (bx != 256) return INVALID;
  int is_fill = !strcmp(name, "fill_pattern");
  if ((is_fill || !strcmp(name, "verify_pattern")) && !owns(ARGUMENT(uint64_t, 0), vectors * 16)) return 700;
  int code = run_basic_kernel(name, gx, arguments);
  if (code || !flip) return code;
  if (is_fill && !strcmp(flip, "memory") && ++runs == 3) ARGUMENT(uint32_t *, 0)[4 * (vectors / 2)] ^= 8;
  if (!strncmp(name, "orbit_", 6) && !strcmp(flip, name)) ARGUMENT(uint64_t *, 2)[0]++;
  return OK;
}
