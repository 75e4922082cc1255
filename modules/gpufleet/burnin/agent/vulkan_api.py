"""Vulkan's functions, structures and constants as tables of text, which the tests compare with Khronos' header.

The loader ``libvulkan.so.1`` exports every function of the core API and finds the drivers of the machine.
"""

from __future__ import annotations

import ctypes
from typing import Any, Sequence  # noqa: UP035 - Python 3.9 runs this

from .clibrary import Library, LibraryError, find_library, parse_prototypes

NAMES = ("libvulkan.so.1", "libvulkan.so")
# Handles of objects below a device are 64-bit numbers, the others are addresses.
OBJECTS = (
    "Buffer CommandPool DescriptorPool DescriptorSet DescriptorSetLayout DeviceMemory Fence Pipeline PipelineCache "
    "PipelineLayout QueryPool ShaderModule"
)
ADDRESSES = "CommandBuffer Device Instance PhysicalDevice Queue"
NUMBERS = (
    "Bool32 CommandPoolResetFlags DependencyFlags DescriptorPoolResetFlags MemoryMapFlags PipelineBindPoint "
    "PipelineStageFlagBits PipelineStageFlags QueryResultFlags ShaderStageFlags"
)
TYPES: dict[str, Any] = {
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "VkDeviceSize": ctypes.c_uint64,
    **{f"Vk{name}": ctypes.c_uint64 for name in OBJECTS.split()},
    **{f"Vk{name}": ctypes.c_void_p for name in ADDRESSES.split()},
    **{f"Vk{name}": ctypes.c_uint32 for name in NUMBERS.split()},
}
# As in vulkan_core.h, without the parameters' names. These return a VkResult.
PROTOTYPES = """
vkCreateInstance(const VkInstanceCreateInfo *, const VkAllocationCallbacks *, VkInstance *)
vkEnumerateInstanceVersion(uint32_t *)
vkEnumeratePhysicalDevices(VkInstance, uint32_t *, VkPhysicalDevice *)
vkEnumerateDeviceExtensionProperties(VkPhysicalDevice, const char *, uint32_t *, VkExtensionProperties *)
vkCreateDevice(VkPhysicalDevice, const VkDeviceCreateInfo *, const VkAllocationCallbacks *, VkDevice *)
vkCreateBuffer(VkDevice, const VkBufferCreateInfo *, const VkAllocationCallbacks *, VkBuffer *)
vkAllocateMemory(VkDevice, const VkMemoryAllocateInfo *, const VkAllocationCallbacks *, VkDeviceMemory *)
vkBindBufferMemory(VkDevice, VkBuffer, VkDeviceMemory, VkDeviceSize)
vkMapMemory(VkDevice, VkDeviceMemory, VkDeviceSize, VkDeviceSize, VkMemoryMapFlags, void **)
vkCreateShaderModule(VkDevice, const VkShaderModuleCreateInfo *, const VkAllocationCallbacks *, VkShaderModule *)
vkCreateComputePipelines(VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo *, const VkAllocationCallbacks *, VkPipeline *)
vkCreateDescriptorSetLayout(VkDevice, const VkDescriptorSetLayoutCreateInfo *, const VkAllocationCallbacks *, VkDescriptorSetLayout *)
vkCreatePipelineLayout(VkDevice, const VkPipelineLayoutCreateInfo *, const VkAllocationCallbacks *, VkPipelineLayout *)
vkCreateDescriptorPool(VkDevice, const VkDescriptorPoolCreateInfo *, const VkAllocationCallbacks *, VkDescriptorPool *)
vkResetDescriptorPool(VkDevice, VkDescriptorPool, VkDescriptorPoolResetFlags)
vkAllocateDescriptorSets(VkDevice, const VkDescriptorSetAllocateInfo *, VkDescriptorSet *)
vkCreateCommandPool(VkDevice, const VkCommandPoolCreateInfo *, const VkAllocationCallbacks *, VkCommandPool *)
vkResetCommandPool(VkDevice, VkCommandPool, VkCommandPoolResetFlags)
vkAllocateCommandBuffers(VkDevice, const VkCommandBufferAllocateInfo *, VkCommandBuffer *)
vkBeginCommandBuffer(VkCommandBuffer, const VkCommandBufferBeginInfo *)
vkEndCommandBuffer(VkCommandBuffer)
vkCreateFence(VkDevice, const VkFenceCreateInfo *, const VkAllocationCallbacks *, VkFence *)
vkResetFences(VkDevice, uint32_t, const VkFence *)
vkWaitForFences(VkDevice, uint32_t, const VkFence *, VkBool32, uint64_t)
vkQueueSubmit(VkQueue, uint32_t, const VkSubmitInfo *, VkFence)
vkCreateQueryPool(VkDevice, const VkQueryPoolCreateInfo *, const VkAllocationCallbacks *, VkQueryPool *)
vkGetQueryPoolResults(VkDevice, VkQueryPool, uint32_t, uint32_t, size_t, void *, VkDeviceSize, VkQueryResultFlags)
"""  # noqa: E501 - a prototype is one line
# These return nothing.
VOID_PROTOTYPES = """
vkGetPhysicalDeviceProperties2(VkPhysicalDevice, VkPhysicalDeviceProperties2 *)
vkGetPhysicalDeviceMemoryProperties2(VkPhysicalDevice, VkPhysicalDeviceMemoryProperties2 *)
vkGetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice, uint32_t *, VkQueueFamilyProperties *)
vkGetDeviceQueue(VkDevice, uint32_t, uint32_t, VkQueue *)
vkGetBufferMemoryRequirements(VkDevice, VkBuffer, VkMemoryRequirements *)
vkDestroyBuffer(VkDevice, VkBuffer, const VkAllocationCallbacks *)
vkFreeMemory(VkDevice, VkDeviceMemory, const VkAllocationCallbacks *)
vkUpdateDescriptorSets(VkDevice, uint32_t, const VkWriteDescriptorSet *, uint32_t, const VkCopyDescriptorSet *)
vkCmdBindPipeline(VkCommandBuffer, VkPipelineBindPoint, VkPipeline)
vkCmdBindDescriptorSets(VkCommandBuffer, VkPipelineBindPoint, VkPipelineLayout, uint32_t, uint32_t, const VkDescriptorSet *, uint32_t, const uint32_t *)
vkCmdPushConstants(VkCommandBuffer, VkPipelineLayout, VkShaderStageFlags, uint32_t, uint32_t, const void *)
vkCmdDispatch(VkCommandBuffer, uint32_t, uint32_t, uint32_t)
vkCmdCopyBuffer(VkCommandBuffer, VkBuffer, VkBuffer, uint32_t, const VkBufferCopy *)
vkCmdPipelineBarrier(VkCommandBuffer, VkPipelineStageFlags, VkPipelineStageFlags, VkDependencyFlags, uint32_t, const VkMemoryBarrier *, uint32_t, const VkBufferMemoryBarrier *, uint32_t, const VkImageMemoryBarrier *)
vkCmdResetQueryPool(VkCommandBuffer, VkQueryPool, uint32_t, uint32_t)
vkCmdWriteTimestamp(VkCommandBuffer, VkPipelineStageFlagBits, VkQueryPool, uint32_t)
"""  # noqa: E501 - a prototype is one line
# A structure, its VkStructureType (-: none, and no pNext), its fields. u, i: 32 bits; U: 64 bits; c: bytes; p: address.
STRUCTURES = """
VkApplicationInfo 0 pApplicationName:p applicationVersion:u pEngineName:p engineVersion:u apiVersion:u
VkInstanceCreateInfo 1 flags:u pApplicationInfo:p enabledLayerCount:u ppEnabledLayerNames:p enabledExtensionCount:u ppEnabledExtensionNames:p
VkDeviceQueueCreateInfo 2 flags:u queueFamilyIndex:u queueCount:u pQueuePriorities:p
VkDeviceCreateInfo 3 flags:u queueCreateInfoCount:u pQueueCreateInfos:p enabledLayerCount:u ppEnabledLayerNames:p enabledExtensionCount:u ppEnabledExtensionNames:p pEnabledFeatures:p
VkSubmitInfo 4 waitSemaphoreCount:u pWaitSemaphores:p pWaitDstStageMask:p commandBufferCount:u pCommandBuffers:p signalSemaphoreCount:u pSignalSemaphores:p
VkMemoryAllocateInfo 5 allocationSize:U memoryTypeIndex:u
VkFenceCreateInfo 8 flags:u
VkQueryPoolCreateInfo 11 flags:u queryType:u queryCount:u pipelineStatistics:u
VkBufferCreateInfo 12 flags:u size:U usage:u sharingMode:u queueFamilyIndexCount:u pQueueFamilyIndices:p
VkShaderModuleCreateInfo 16 flags:u codeSize:U pCode:p
VkPipelineShaderStageCreateInfo 18 flags:u stage:u module:U pName:p pSpecializationInfo:p
VkComputePipelineCreateInfo 29 flags:u stage:VkPipelineShaderStageCreateInfo layout:U basePipelineHandle:U basePipelineIndex:i
VkPipelineLayoutCreateInfo 30 flags:u setLayoutCount:u pSetLayouts:p pushConstantRangeCount:u pPushConstantRanges:p
VkDescriptorSetLayoutCreateInfo 32 flags:u bindingCount:u pBindings:p
VkDescriptorPoolCreateInfo 33 flags:u maxSets:u poolSizeCount:u pPoolSizes:p
VkDescriptorSetAllocateInfo 34 descriptorPool:U descriptorSetCount:u pSetLayouts:p
VkWriteDescriptorSet 35 dstSet:U dstBinding:u dstArrayElement:u descriptorCount:u descriptorType:u pImageInfo:p pBufferInfo:p pTexelBufferView:p
VkCommandPoolCreateInfo 39 flags:u queueFamilyIndex:u
VkCommandBufferAllocateInfo 40 commandPool:U level:u commandBufferCount:u
VkCommandBufferBeginInfo 42 flags:u pInheritanceInfo:p
VkMemoryBarrier 46 srcAccessMask:u dstAccessMask:u
VkPhysicalDeviceMaintenance3Properties 1000168000 maxPerSetDescriptors:u maxMemoryAllocationSize:U
VkPhysicalDevicePCIBusInfoPropertiesEXT 1000212000 pciDomain:u pciBus:u pciDevice:u pciFunction:u
VkPhysicalDeviceMemoryBudgetPropertiesEXT 1000237000 heapBudget:U16 heapUsage:U16
VkPhysicalDeviceDriverProperties 1000196000 driverID:u driverName:c256 driverInfo:c256 conformanceVersion:u
VkMemoryType - propertyFlags:u heapIndex:u
VkMemoryHeap - size:U flags:u
VkPhysicalDeviceMemoryProperties - memoryTypeCount:u memoryTypes:VkMemoryType32 memoryHeapCount:u memoryHeaps:VkMemoryHeap16
VkPhysicalDeviceMemoryProperties2 1000059006 memoryProperties:VkPhysicalDeviceMemoryProperties
VkPhysicalDeviceProperties - apiVersion:u driverVersion:u vendorID:u deviceID:u deviceType:u deviceName:c256 pipelineCacheUUID:c16 limits:U63 sparseProperties:u5
VkPhysicalDeviceProperties2 1000059001 properties:VkPhysicalDeviceProperties
VkBufferCopy - srcOffset:U dstOffset:U size:U
VkDescriptorBufferInfo - buffer:U offset:U range:U
VkDescriptorPoolSize - type:u descriptorCount:u
VkDescriptorSetLayoutBinding - binding:u descriptorType:u descriptorCount:u stageFlags:u pImmutableSamplers:p
VkExtensionProperties - extensionName:c256 specVersion:u
VkMemoryRequirements - size:U alignment:U memoryTypeBits:u
VkPushConstantRange - stageFlags:u offset:u size:u
VkQueueFamilyProperties - queueFlags:u queueCount:u timestampValidBits:u minImageTransferGranularity:u3
"""  # noqa: E501 - a structure is one line
# Of the fields of VkPhysicalDeviceLimits: its offset, its type.
LIMITS = {
    "maxStorageBufferRange": (28, "u"),
    "maxMemoryAllocationCount": (36, "u"),
    "maxComputeSharedMemorySize": (216, "u"),
    "maxComputeWorkGroupCount": (220, "u"),
    "maxComputeWorkGroupInvocations": (232, "u"),
    "timestampPeriod": (424, "f"),
}
CONSTANTS = {
    "VK_API_VERSION_1_1": 1 << 22 | 1 << 12,
    "VK_API_VERSION_1_2": 1 << 22 | 2 << 12,
    "VK_BUFFER_USAGE_TRANSFER_SRC_BIT": 1,
    "VK_BUFFER_USAGE_TRANSFER_DST_BIT": 2,
    "VK_BUFFER_USAGE_STORAGE_BUFFER_BIT": 0x20,
    "VK_DESCRIPTOR_TYPE_STORAGE_BUFFER": 7,
    "VK_ACCESS_MEMORY_READ_BIT": 0x8000,
    "VK_ACCESS_MEMORY_WRITE_BIT": 0x10000,
    "VK_MEMORY_HEAP_DEVICE_LOCAL_BIT": 1,
    "VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT": 1,
    "VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT": 2,
    "VK_MEMORY_PROPERTY_HOST_COHERENT_BIT": 4,
    "VK_MEMORY_PROPERTY_HOST_CACHED_BIT": 8,
    "VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU": 1,
    "VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU": 2,
    "VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU": 3,
    "VK_PHYSICAL_DEVICE_TYPE_CPU": 4,
    "VK_PIPELINE_BIND_POINT_COMPUTE": 1,
    "VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT": 1,
    "VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT": 0x2000,
    "VK_PIPELINE_STAGE_HOST_BIT": 0x4000,
    "VK_PIPELINE_STAGE_ALL_COMMANDS_BIT": 0x10000,
    "VK_QUERY_RESULT_64_BIT": 1,
    "VK_QUERY_RESULT_WAIT_BIT": 2,
    "VK_QUERY_TYPE_TIMESTAMP": 2,
    "VK_QUEUE_COMPUTE_BIT": 2,
    "VK_SHADER_STAGE_COMPUTE_BIT": 0x20,
}
RESULTS = {
    "VK_TIMEOUT": 2,
    "VK_INCOMPLETE": 5,
    "VK_ERROR_OUT_OF_HOST_MEMORY": -1,
    "VK_ERROR_OUT_OF_DEVICE_MEMORY": -2,
    "VK_ERROR_INITIALIZATION_FAILED": -3,
    "VK_ERROR_DEVICE_LOST": -4,
    "VK_ERROR_MEMORY_MAP_FAILED": -5,
    "VK_ERROR_LAYER_NOT_PRESENT": -6,
    "VK_ERROR_EXTENSION_NOT_PRESENT": -7,
    "VK_ERROR_FEATURE_NOT_PRESENT": -8,
    "VK_ERROR_INCOMPATIBLE_DRIVER": -9,
    "VK_ERROR_TOO_MANY_OBJECTS": -10,
    "VK_ERROR_OUT_OF_POOL_MEMORY": -1000069000,
}
NAMES_OF_RESULTS = {code: name for name, code in RESULTS.items()}
FIELD_TYPES: dict[str, Any] = {
    "u": ctypes.c_uint32,
    "i": ctypes.c_int32,
    "U": ctypes.c_uint64,
    "f": ctypes.c_float,
    "c": ctypes.c_char,
    "p": ctypes.c_void_p,
}


def parse_structures(table: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return ctypes' structures and their VkStructureType by name."""
    structures: dict[str, Any] = {}
    numbers: dict[str, int] = {}
    for line in filter(None, table.splitlines()):
        name, number, *words = line.split()
        fields: list[tuple[str, Any]] = []
        if number != "-":
            numbers[name] = int(number)
            fields = [("sType", ctypes.c_uint32), ("pNext", ctypes.c_void_p)]
        for word in words:
            field, _, text = word.partition(":")
            letters = text.rstrip("0123456789")
            kind = FIELD_TYPES.get(letters) or structures[letters]
            fields.append((field, kind * int(text[len(letters) :]) if text != letters else kind))
        structures[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return structures, numbers


STRUCTURE_TYPES, STRUCTURE_NUMBERS = parse_structures(STRUCTURES)


def make(structure: str, **fields: Any) -> Any:
    """Return a structure with these fields; objects in fields that take an address live as long as it does."""
    made = STRUCTURE_TYPES[structure]()
    made.keep = []
    if structure in STRUCTURE_NUMBERS:
        made.sType = STRUCTURE_NUMBERS[structure]
    types = dict(made._fields_)
    for name, value in fields.items():
        if types[name] is ctypes.c_void_p and isinstance(value, bytes):
            value = ctypes.create_string_buffer(value)  # noqa: PLW2901 - the same content at an address
        made.keep.append(value)
        is_address = types[name] is ctypes.c_void_p and not isinstance(value, (int, ctypes.c_void_p))
        setattr(made, name, ctypes.addressof(value) if is_address else value)
    return made


def make_array(kind: Any, values: Sequence[Any]) -> Any:
    """Return a C array; what its values point to lives as long as it does."""
    made = (kind * len(values))(*values)
    made.keep = values
    return made


class Vulkan(Library):
    """The loader's functions: ``call`` for those with a result, ``do`` for those without."""

    def __init__(self, names: Sequence[str] = NAMES) -> None:
        tables = PROTOTYPES + VOID_PROTOTYPES
        super().__init__(find_library(names), parse_prototypes(tables, TYPES))

    def describe_error(self, code: int) -> str:
        """Return Vulkan's name of a result."""
        return NAMES_OF_RESULTS.get(code, f"VkResult {code}")

    def do(self, name: str, *arguments: Any) -> None:
        """Call a function that returns nothing."""
        function = self.functions.get(name)
        if function is None:
            try:
                function = getattr(self.library, name)
            except AttributeError:
                raise LibraryError(f"the installed version has no {name}") from None
            function.argtypes, function.restype = self.prototypes[name], None
            self.functions[name] = function
        function(*arguments)

    def create(self, name: str, owner: Any, information: Any) -> int:
        """Call one of the functions that create an object; return its handle."""
        handle = ctypes.c_uint64()
        self.call(name, owner, ctypes.addressof(information), None, ctypes.addressof(handle))
        return int(handle.value)

    def list_all(self, name: str, kind: Any, *arguments: Any, is_void: bool = False) -> list[Any]:
        """Call one of the functions that fill an array, first for its length."""
        count = ctypes.c_uint32()
        run = self.do if is_void else self.call
        run(name, *arguments, ctypes.addressof(count), None)
        items = (kind * max(1, count.value))()
        if count.value:
            run(name, *arguments, ctypes.addressof(count), ctypes.addressof(items))
        return list(items)[: count.value]
