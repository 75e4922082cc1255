"""One device of Vulkan with its memory, kernels and one queue; every wait for the device has a time limit."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any, Sequence  # noqa: UP035 - Python 3.9 runs this

from .card_device import BINDINGS, GROUP_BYTES, NUMBERS, Buffer, Recording
from .clibrary import LibraryError
from .kernel_source import read_kernel_file
from .kernel_values import THREADS
from .vulkan_api import (
    CONSTANTS,
    FIELD_TYPES,
    LIMITS,
    NAMES,
    RESULTS,
    STRUCTURE_TYPES,
    Vulkan,
    make,
    make_array,
)
from .vulkan_recording import MAX_DISPATCHES, VulkanRecording

OUT_OF_MEMORY = {RESULTS["VK_ERROR_OUT_OF_DEVICE_MEMORY"], RESULTS["VK_ERROR_OUT_OF_HOST_MEMORY"]}
STORAGE_USAGE = (
    CONSTANTS["VK_BUFFER_USAGE_STORAGE_BUFFER_BIT"]
    | CONSTANTS["VK_BUFFER_USAGE_TRANSFER_SRC_BIT"]
    | CONSTANTS["VK_BUFFER_USAGE_TRANSFER_DST_BIT"]
)
VISIBLE = CONSTANTS["VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT"] | CONSTANTS["VK_MEMORY_PROPERTY_HOST_COHERENT_BIT"]
CACHED = VISIBLE | CONSTANTS["VK_MEMORY_PROPERTY_HOST_CACHED_BIT"]


@dataclass(frozen=True)
class PhysicalDevice:
    """What Vulkan shows of a device before it is used."""

    handle: Any
    name: str
    vendor: int
    device: int
    kind: int
    api: tuple[int, int]
    driver: str
    bus_id: str
    limits: dict[str, Any]
    extensions: frozenset[str]
    max_allocation: int


def open_instance(names: Sequence[str] = NAMES) -> tuple[Vulkan, Any]:
    """Load Vulkan; return it with an instance of version 1.1 or newer."""
    vulkan = Vulkan(names)
    version = ctypes.c_uint32()
    if vulkan.try_call("vkEnumerateInstanceVersion", ctypes.addressof(version)) is None:
        raise LibraryError("the installed Vulkan loader is older than 1.1")
    api = min(version.value, CONSTANTS["VK_API_VERSION_1_2"])
    application = make("VkApplicationInfo", pApplicationName=b"gpufleet", apiVersion=api)
    instance = ctypes.c_void_p()
    information = make("VkInstanceCreateInfo", pApplicationInfo=application)
    vulkan.call("vkCreateInstance", ctypes.addressof(information), None, ctypes.addressof(instance))
    return vulkan, instance


def list_physical_devices(vulkan: Vulkan, instance: Any) -> list[PhysicalDevice]:
    """Return all devices of all drivers that know Vulkan 1.1."""
    handles = vulkan.list_all("vkEnumeratePhysicalDevices", ctypes.c_void_p, instance)
    devices = [describe_device(vulkan, handle) for handle in handles]
    return [device for device in devices if device is not None]


def describe_device(vulkan: Vulkan, handle: Any) -> PhysicalDevice | None:
    """Read a device's properties; None for one that knows only Vulkan 1.0."""
    items = vulkan.list_all(
        "vkEnumerateDeviceExtensionProperties", STRUCTURE_TYPES["VkExtensionProperties"], handle, None
    )
    extensions = frozenset(item.extensionName.decode() for item in items)
    maintenance, pci = (
        make("VkPhysicalDeviceMaintenance3Properties"),
        make("VkPhysicalDevicePCIBusInfoPropertiesEXT"),
    )
    driver, plain = make("VkPhysicalDeviceDriverProperties"), make("VkPhysicalDeviceProperties2")
    vulkan.do("vkGetPhysicalDeviceProperties2", handle, ctypes.addressof(plain))
    version = plain.properties.apiVersion
    if version < CONSTANTS["VK_API_VERSION_1_1"]:
        return None
    chain = [maintenance]
    if "VK_EXT_pci_bus_info" in extensions:
        chain.append(pci)
    if "VK_KHR_driver_properties" in extensions or version >= CONSTANTS["VK_API_VERSION_1_2"]:
        chain.append(driver)
    linked = None
    for part in chain:
        part.pNext = linked
        linked = ctypes.addressof(part)
    full = make("VkPhysicalDeviceProperties2")
    full.pNext = linked
    vulkan.do("vkGetPhysicalDeviceProperties2", handle, ctypes.addressof(full))
    found = full.properties
    raw = bytes(found.limits)
    limits = {
        name: FIELD_TYPES[letter].from_buffer_copy(raw, offset).value
        for name, (offset, letter) in LIMITS.items()
    }
    limits["maxComputeWorkGroupCount"] = struct.unpack_from("<I", raw, LIMITS["maxComputeWorkGroupCount"][0])[
        0
    ]
    address = f"{pci.pciDomain:04x}:{pci.pciBus:02x}:{pci.pciDevice:02x}.{pci.pciFunction:x}"
    return PhysicalDevice(
        handle=ctypes.c_void_p(handle), name=found.deviceName.decode("utf-8", "replace"),
        vendor=found.vendorID, device=found.deviceID, kind=found.deviceType,
        api=(version >> 22 & 0x7F, version >> 12 & 0x3FF),
        driver=b" ".join((driver.driverName, driver.driverInfo)).decode("utf-8", "replace").strip(),
        bus_id=address if pci in chain else "", limits=limits, extensions=extensions,
        max_allocation=maintenance.maxMemoryAllocationSize,
    )  # fmt: skip


class VulkanDevice:
    """A device with one compute queue."""

    def __init__(self, vulkan: Vulkan, physical: PhysicalDevice) -> None:
        self.vulkan, self.physical = vulkan, physical
        limits = physical.limits
        if limits["maxComputeWorkGroupInvocations"] < THREADS:
            raise LibraryError(f"the device has workgroups of fewer than {THREADS} threads")
        groups_bytes = limits["maxComputeWorkGroupCount"] * GROUP_BYTES
        self.max_buffer_bytes = int(
            min(limits["maxStorageBufferRange"], physical.max_allocation, groups_bytes)
        )
        self.max_buffers = int(min(MAX_DISPATCHES, limits["maxMemoryAllocationCount"]) // 2)
        self.family, self.timestamp_bits = self._find_compute_family()
        priorities = make_array(ctypes.c_float, [1.0])
        queues = make(
            "VkDeviceQueueCreateInfo", queueFamilyIndex=self.family, queueCount=1, pQueuePriorities=priorities
        )
        wanted = [name.encode() for name in ("VK_EXT_memory_budget",) if name in physical.extensions]
        names = make_array(ctypes.c_char_p, wanted)
        information = make(
            "VkDeviceCreateInfo", queueCreateInfoCount=1, pQueueCreateInfos=queues,
            enabledExtensionCount=len(wanted), ppEnabledExtensionNames=names,
        )  # fmt: skip
        self.handle, self.queue = ctypes.c_void_p(), ctypes.c_void_p()
        vulkan.call(
            "vkCreateDevice",
            physical.handle,
            ctypes.addressof(information),
            None,
            ctypes.addressof(self.handle),
        )
        vulkan.do("vkGetDeviceQueue", self.handle, self.family, 0, ctypes.addressof(self.queue))
        self.types, self.heaps = self._read_memory()
        self._create_objects()

    def _find_compute_family(self) -> tuple[int, int]:
        families = self.vulkan.list_all(
            "vkGetPhysicalDeviceQueueFamilyProperties", STRUCTURE_TYPES["VkQueueFamilyProperties"],
            self.physical.handle, is_void=True,
        )  # fmt: skip
        for number, family in enumerate(families):
            if family.queueFlags & CONSTANTS["VK_QUEUE_COMPUTE_BIT"]:
                return number, family.timestampValidBits
        raise LibraryError("the device has no queue for compute work")

    def _create_objects(self) -> None:
        """Create what all kernels and recordings share."""
        create, device = self.vulkan.create, self.handle
        stage = CONSTANTS["VK_SHADER_STAGE_COMPUTE_BIT"]
        storage = CONSTANTS["VK_DESCRIPTOR_TYPE_STORAGE_BUFFER"]
        bindings = [
            make(
                "VkDescriptorSetLayoutBinding", binding=number, descriptorType=storage, descriptorCount=1,
                stageFlags=stage,
            )
            for number in range(BINDINGS)
        ]  # fmt: skip
        array = make_array(STRUCTURE_TYPES["VkDescriptorSetLayoutBinding"], bindings)
        layout = make("VkDescriptorSetLayoutCreateInfo", bindingCount=BINDINGS, pBindings=array)
        self.sets = make_array(ctypes.c_uint64, [create("vkCreateDescriptorSetLayout", device, layout)])
        numbers = make("VkPushConstantRange", stageFlags=stage, size=4 * NUMBERS)
        layout = make(
            "VkPipelineLayoutCreateInfo", setLayoutCount=1, pSetLayouts=self.sets, pushConstantRangeCount=1,
            pPushConstantRanges=numbers,
        )  # fmt: skip
        self.layout = create("vkCreatePipelineLayout", device, layout)
        size = make("VkDescriptorPoolSize", type=storage, descriptorCount=BINDINGS * MAX_DISPATCHES)
        pool = make("VkDescriptorPoolCreateInfo", maxSets=MAX_DISPATCHES, poolSizeCount=1, pPoolSizes=size)
        self.descriptors = create("vkCreateDescriptorPool", device, pool)
        pool = make("VkCommandPoolCreateInfo", queueFamilyIndex=self.family)
        self.commands = create("vkCreateCommandPool", device, pool)
        self.command_buffer = ctypes.c_void_p()
        buffers = make("VkCommandBufferAllocateInfo", commandPool=self.commands, commandBufferCount=1)
        self.vulkan.call(
            "vkAllocateCommandBuffers",
            device,
            ctypes.addressof(buffers),
            ctypes.addressof(self.command_buffer),
        )
        self.fence = create("vkCreateFence", device, make("VkFenceCreateInfo"))
        query = make("VkQueryPoolCreateInfo", queryType=CONSTANTS["VK_QUERY_TYPE_TIMESTAMP"], queryCount=2)
        self.queries = create("vkCreateQueryPool", device, query) if self.timestamp_bits else 0

    def _read_memory(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return memory types (flags, heap) and heaps (free bytes, flags)."""
        memory, budget = (
            make("VkPhysicalDeviceMemoryProperties2"),
            make("VkPhysicalDeviceMemoryBudgetPropertiesEXT"),
        )
        has_budget = "VK_EXT_memory_budget" in self.physical.extensions
        memory.pNext = ctypes.addressof(budget) if has_budget else None
        self.vulkan.do("vkGetPhysicalDeviceMemoryProperties2", self.physical.handle, ctypes.addressof(memory))
        found = memory.memoryProperties
        types = [(kind.propertyFlags, kind.heapIndex) for kind in found.memoryTypes[: found.memoryTypeCount]]
        heaps = []
        for number, heap in enumerate(found.memoryHeaps[: found.memoryHeapCount]):
            free = max(0, budget.heapBudget[number] - budget.heapUsage[number]) if has_budget else heap.size
            heaps.append((min(free, heap.size), heap.flags))
        return types, heaps

    def device_heap(self) -> int:
        """Return the number of the largest heap of the device's own memory."""
        local = CONSTANTS["VK_MEMORY_HEAP_DEVICE_LOCAL_BIT"]
        sizes = {number: heap[0] for number, heap in enumerate(self.heaps) if heap[1] & local}
        if not sizes:
            raise LibraryError("the device has no memory of its own")
        return max(sizes, key=lambda number: sizes[number])

    def free_bytes(self) -> int:
        """Return how much of the device's own memory is free."""
        heap = self.device_heap()
        return self._read_memory()[1][heap][0]

    def find_memory_type(self, allowed: int, place: str) -> int:
        """Return a memory type: Vulkan lists the fastest ones first."""
        local = CONSTANTS["VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT"]
        heap = self.device_heap()
        usable = [(number, *kind) for number, kind in enumerate(self.types) if allowed >> number & 1]
        if place == "device":
            wanted = [number for number, flags, where in usable if flags & local and where == heap]
        else:
            cached = [number for number, flags, _ in usable if flags & CACHED == CACHED]
            wanted = cached or [number for number, flags, _ in usable if flags & VISIBLE == VISIBLE]
        if not wanted:
            raise LibraryError(f"no memory type for a buffer in {place} memory")
        return wanted[0]

    def create_buffer(self, size: int, place: str = "device") -> Buffer:
        """Return a buffer in memory of the ``device`` or the ``host``."""
        information = make("VkBufferCreateInfo", size=size, usage=STORAGE_USAGE)
        buffer = Buffer(self.vulkan.create("vkCreateBuffer", self.handle, information), 0, size)
        needs = make("VkMemoryRequirements")
        self.vulkan.do("vkGetBufferMemoryRequirements", self.handle, buffer.handle, ctypes.addressof(needs))
        kind = self.find_memory_type(needs.memoryTypeBits, place)
        request = make("VkMemoryAllocateInfo", allocationSize=needs.size, memoryTypeIndex=kind)
        try:
            buffer.memory = self.vulkan.create("vkAllocateMemory", self.handle, request)
        except LibraryError:
            self.free(buffer)
            raise
        self.vulkan.call("vkBindBufferMemory", self.handle, buffer.handle, buffer.memory, 0)
        if place == "host":
            address = ctypes.c_void_p()
            self.vulkan.call("vkMapMemory", self.handle, buffer.memory, 0, size, 0, ctypes.addressof(address))
            buffer.address = address.value or 0
        return buffer

    def free(self, *buffers: Buffer) -> None:
        """Give buffers and their memory back."""
        for buffer in buffers:
            self.vulkan.do("vkDestroyBuffer", self.handle, buffer.handle, None)
            if buffer.memory:
                self.vulkan.do("vkFreeMemory", self.handle, buffer.memory, None)

    def record(self) -> Recording:
        """Return a new recording."""
        return VulkanRecording(self)

    def is_out_of_memory(self, code: int | None) -> bool:
        """Return whether an error's code says that there is no more memory."""
        return code in OUT_OF_MEMORY

    def load_kernel(self, name: str) -> int:
        """Let the driver compile a kernel."""
        code = read_kernel_file(f"{name}.spv")
        module = make("VkShaderModuleCreateInfo", codeSize=len(code), pCode=code)
        shader = self.vulkan.create("vkCreateShaderModule", self.handle, module)
        stage = make(
            "VkPipelineShaderStageCreateInfo", stage=CONSTANTS["VK_SHADER_STAGE_COMPUTE_BIT"], module=shader,
            pName=b"main",
        )  # fmt: skip
        pipeline = make("VkComputePipelineCreateInfo", stage=stage, layout=self.layout, basePipelineIndex=0)
        handle = ctypes.c_uint64()
        self.vulkan.call(
            "vkCreateComputePipelines", self.handle, 0, 1, ctypes.addressof(pipeline), None,
            ctypes.addressof(handle),
        )  # fmt: skip
        return int(handle.value)
