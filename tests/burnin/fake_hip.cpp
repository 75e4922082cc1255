// A stand-in for ROCm's libamdhip64 and libhiprtc: the agent's own kernels, compiled for this processor and run on it.
//
// It takes the same source and options as the real compiler. Threads of a group that meet barriers are fibers.
// FAKE_HIP_DEVICES, FAKE_HIP_MIB: what there is. FAKE_HIP_FLIP=kernel:buffer:launch,… flips one bit of a buffer
// after that launch of the kernel. FAKE_HIP_RESULT: what every query of an event returns after the tenth.
#include <dlfcn.h>
#include <ucontext.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {
using Kernel = void (*)(unsigned *, unsigned *, unsigned *, unsigned, unsigned, unsigned, unsigned);
struct Index { unsigned x; };
struct Module { Index *thread, *block; void (**wait)(); void *library; };
struct Function { Kernel run; std::string name; Module *module; };
struct Program { std::string source, code, log; };
struct Event { std::chrono::steady_clock::time_point time; };

const size_t STACK_BYTES = 32768;
std::map<void *, size_t> allocated;
size_t used_bytes;
ucontext_t scheduler;
std::vector<ucontext_t> fibers;
std::vector<bool> finished;
std::vector<char> stacks;
unsigned current;
const Function *running;
void **running_arguments;

size_t read_number(const char *name, size_t otherwise) {
  const char *text = getenv(name);
  return text ? strtoul(text, nullptr, 10) : otherwise;
}

void run_thread() {
  unsigned *buffers[3], numbers[4];
  for (int i = 0; i < 3; i++) buffers[i] = *(unsigned **)running_arguments[i];
  for (int i = 0; i < 4; i++) numbers[i] = *(unsigned *)running_arguments[3 + i];
  running->run(buffers[0], buffers[1], buffers[2], numbers[0], numbers[1], numbers[2], numbers[3]);
}

void run_fiber() {
  run_thread();
  finished[current] = true;
  swapcontext(&fibers[current], &scheduler);
}

void wait_for_group() { swapcontext(&fibers[current], &scheduler); }

void run_group(unsigned threads) {
  fibers.resize(threads);
  finished.assign(threads, false);
  stacks.resize(threads * STACK_BYTES);
  for (unsigned i = 0; i < threads; i++) {
    getcontext(&fibers[i]);
    fibers[i].uc_stack.ss_sp = &stacks[i * STACK_BYTES];
    fibers[i].uc_stack.ss_size = STACK_BYTES;
    fibers[i].uc_link = nullptr;
    makecontext(&fibers[i], run_fiber, 0);
  }
  // Each round runs every thread to its next barrier, or to its end.
  for (bool is_alive = true; is_alive;) {
    is_alive = false;
    for (current = 0; current < threads; current++) {
      if (finished[current]) continue;
      running->module->thread->x = current;
      swapcontext(&scheduler, &fibers[current]);
      is_alive |= !finished[current];
    }
  }
}

void flip_on_request(const std::string &name, void **arguments) {
  static std::map<std::string, int> launches;
  const char *text = getenv("FAKE_HIP_FLIP");
  std::stringstream wishes(text ? text : "");
  launches[name]++;
  for (std::string wish; std::getline(wishes, wish, ',');) {
    size_t first = wish.find(':'), second = wish.rfind(':');
    if (wish.substr(0, first) != name || launches[name] != std::stoi(wish.substr(second + 1))) continue;
    unsigned *buffer = *(unsigned **)arguments[std::stoi(wish.substr(first + 1))];
    buffer[100] ^= 1u << 7;
  }
}
}  // namespace

extern "C" {
int gpufleet_fake_driver = 1;

int hipInit(unsigned) { return 0; }
int hipGetDeviceCount(int *count) {
  *count = (int)read_number("FAKE_HIP_DEVICES", 1);
  for (const char *name : {"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
    if (getenv(name)) *count = 1;  // as if it named one GPU
  return *count ? 0 : 100;
}
int hipSetDevice(int) { return 0; }
int hipDeviceSynchronize(void) { return 0; }
int hipDeviceGetName(char *name, int size, int) { return snprintf(name, size, "AMD Instinct MI210 (FAKE)") < 0; }
int hipDeviceGetPCIBusId(char *id, int size, int device) { return snprintf(id, size, "0000:%02X:00.0", 3 + device) < 0; }
int hipDeviceGetAttribute(int *value, int, int) { return *value = 0; }
int hipRuntimeGetVersion(int *version) { *version = 60342131; return 0; }

int hipMalloc(void **place, size_t size) {
  if (used_bytes + size > read_number("FAKE_HIP_MIB", 4) << 20) return 2;
  *place = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  used_bytes += allocated[*place] = size;
  return 0;
}
int hipFree(void *place) {
  used_bytes -= allocated[place];
  allocated.erase(place);
  free(place);
  return 0;
}
int hipHostMalloc(void **place, size_t size, unsigned) { return (*place = malloc(size)) ? 0 : 2; }
int hipHostFree(void *place) { free(place); return 0; }
int hipMemcpyAsync(void *to, const void *from, size_t size, int, void *) { memcpy(to, from, size); return 0; }
int hipMemGetInfo(size_t *available, size_t *total) {
  *total = read_number("FAKE_HIP_MIB", 4) << 20;
  *available = *total - used_bytes;
  return 0;
}

int hipEventCreate(void **event) { *event = new Event; return 0; }
int hipEventRecord(void *event, void *) { ((Event *)event)->time = std::chrono::steady_clock::now(); return 0; }
int hipEventQuery(void *) {
  static int queries;
  return ++queries > 10 ? (int)read_number("FAKE_HIP_RESULT", 0) : 0;
}
int hipEventElapsedTime(float *ms, void *start, void *stop) {
  *ms = std::chrono::duration<float, std::milli>(((Event *)stop)->time - ((Event *)start)->time).count();
  return 0;
}

int hiprtcCreateProgram(void **program, const char *source, const char *, int, const char **, const char **) {
  *program = new Program{source, "", ""};
  return 0;
}
int hiprtcCompileProgram(void *handle, int count, const char **options) {
  Program *program = (Program *)handle;
  char folder[] = "/tmp/fake-hip-XXXXXX";
  if (!mkdtemp(folder)) return 7;
  std::string base = folder, command = "c++ -x c++ -std=c++17 -shared -fPIC -o " + base + "/code.so";
  for (int i = 0; i < count; i++) command += std::string(" ") + options[i];
  command += " -O1";  // the last one counts: compiling takes most of a test's time
  std::ofstream(base + "/code.cpp")
      << "struct Index { unsigned x; };\nextern \"C\" { Index threadIdx, blockIdx; void (*gpufleet_wait)(); }\n"
      << "#define __global__\n#define __device__\n#define __shared__ static\n#define __launch_bounds__(n)\n"
      << "#define __syncthreads() gpufleet_wait()\n"
      << program->source;
  if (system((command + " " + base + "/code.cpp 2>" + base + "/log").c_str())) {
    std::ifstream log(base + "/log");
    program->log.assign(std::istreambuf_iterator<char>(log), {});
    return 6;
  }
  program->code = base + "/code.so";
  return 0;
}
int hiprtcGetProgramLogSize(void *program, size_t *size) { *size = ((Program *)program)->log.size() + 1; return 0; }
int hiprtcGetProgramLog(void *program, char *log) { strcpy(log, ((Program *)program)->log.c_str()); return 0; }
int hiprtcGetCodeSize(void *program, size_t *size) { *size = ((Program *)program)->code.size() + 1; return 0; }
int hiprtcGetCode(void *program, char *code) { strcpy(code, ((Program *)program)->code.c_str()); return 0; }

int hipModuleLoadData(void **module, const void *image) {
  std::string path = (const char *)image;
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return 200;
  std::string folder = path.substr(0, path.rfind('/'));
  for (const char *name : {"/code.so", "/code.cpp", "/log"}) unlink((folder + name).c_str());
  rmdir(folder.c_str());
  *module = new Module{(Index *)dlsym(library, "threadIdx"), (Index *)dlsym(library, "blockIdx"),
                       (void (**)())dlsym(library, "gpufleet_wait"), library};
  return 0;
}
int hipModuleGetFunction(void **function, void *handle, const char *name) {
  Module *module = (Module *)handle;
  Kernel kernel = (Kernel)dlsym(module->library, name);
  *function = new Function{kernel, name, module};
  return kernel ? 0 : 500;
}
int hipModuleLaunchKernel(void *function, unsigned groups, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                          unsigned, void *, void **arguments, void **) {
  running = (Function *)function;
  running_arguments = arguments;
  *running->module->wait = wait_for_group;
  bool has_barriers = running->name.rfind("multiply", 0) == 0;
  for (unsigned group = 0; group < groups; group++) {
    running->module->block->x = group;
    if (has_barriers) {
      run_group(threads);
    } else {
      for (unsigned thread = 0; thread < threads; thread++) {
        running->module->thread->x = thread;
        run_thread();
      }
    }
  }
  flip_on_request(running->name, arguments);
  return 0;
}
}
