/* A Vulkan loader whose device is lost or hangs: every other function is the real loader's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <vulkan/vulkan.h>

VkResult vkWaitForFences(VkDevice device, uint32_t count, const VkFence *fences, VkBool32 all, uint64_t limit) {
  static int calls;
  PFN_vkWaitForFences real = (PFN_vkWaitForFences)dlsym(RTLD_NEXT, "vkWaitForFences");
  VkResult result = real(device, count, fences, all, limit);
  return ++calls > 4 ? (VkResult)atoi(getenv("FAKE_VULKAN_RESULT")) : result;
}
