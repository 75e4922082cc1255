"""Commands for a device of Vulkan: recorded, run one after the other, and waited for with a time limit."""

from __future__ import annotations

import ctypes
import time
from typing import Any, Protocol, Sequence  # noqa: UP035 - Python 3.9 runs this

from .card_device import NUMBERS, WAIT_SECONDS, Buffer
from .clibrary import LibraryError
from .vulkan_api import CONSTANTS, RESULTS, STRUCTURE_TYPES, Vulkan, make, make_array

# Dispatches of one recording; each takes one descriptor set.
MAX_DISPATCHES = 1024
COMPUTE, STAGE = CONSTANTS["VK_PIPELINE_BIND_POINT_COMPUTE"], CONSTANTS["VK_SHADER_STAGE_COMPUTE_BIT"]
ALL_STAGES = CONSTANTS["VK_PIPELINE_STAGE_ALL_COMMANDS_BIT"]
HOST_TOO = ALL_STAGES | CONSTANTS["VK_PIPELINE_STAGE_HOST_BIT"]


class RecordingDevice(Protocol):
    """What a recording needs of a device: the library, and handles of objects that were made once."""

    vulkan: Vulkan
    physical: Any
    handle: Any
    queue: Any
    commands: Any
    command_buffer: Any
    descriptors: Any
    fence: Any
    layout: Any
    queries: Any
    sets: Any
    timestamp_bits: int


class VulkanRecording:
    """Commands that run one after the other when the block ends; ``seconds`` is then the time they took."""

    def __init__(self, device: RecordingDevice, wait_s: float = WAIT_SECONDS) -> None:
        self.device, self.vulkan, self.wait_s = device, device.vulkan, wait_s
        self.buffer, self.seconds = device.command_buffer, 0.0

    def __enter__(self) -> VulkanRecording:  # noqa: PYI034 - Python 3.9 has no Self
        """Begin anew: whatever was recorded before has been waited for."""
        device = self.device
        self.vulkan.call("vkResetDescriptorPool", device.handle, device.descriptors, 0)
        self.vulkan.call("vkResetCommandPool", device.handle, device.commands, 0)
        begin = make("VkCommandBufferBeginInfo")
        self.vulkan.call("vkBeginCommandBuffer", self.buffer, ctypes.addressof(begin))
        if device.queries:
            self.vulkan.do("vkCmdResetQueryPool", self.buffer, device.queries, 0, 2)
            self._note_time("VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT", 0)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Submit and wait."""
        if kind is None:
            if self.device.queries:
                self._note_time("VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT", 1)
            self.vulkan.call("vkEndCommandBuffer", self.buffer)
            self._submit()

    def _note_time(self, stage: str, number: int) -> None:
        self.vulkan.do("vkCmdWriteTimestamp", self.buffer, CONSTANTS[stage], self.device.queries, number)

    def _submit(self) -> None:
        device, vulkan = self.device, self.vulkan
        buffers = make_array(ctypes.c_void_p, [self.buffer])
        submit = make("VkSubmitInfo", commandBufferCount=1, pCommandBuffers=buffers)
        fences = make_array(ctypes.c_uint64, [device.fence])
        started = time.perf_counter()
        vulkan.call("vkQueueSubmit", device.queue, 1, ctypes.addressof(submit), device.fence)
        limit = int(self.wait_s * 1e9)
        code = vulkan.try_call("vkWaitForFences", device.handle, 1, ctypes.addressof(fences), 1, limit)
        self.seconds = time.perf_counter() - started
        if code == RESULTS["VK_TIMEOUT"]:
            raise LibraryError(f"the GPU did not finish within {self.wait_s:g} s", code)
        if code:
            raise LibraryError(f"vkWaitForFences: {vulkan.describe_error(code)}", code)
        vulkan.call("vkResetFences", device.handle, 1, ctypes.addressof(fences))
        self.seconds = self._read_device_seconds() or self.seconds

    def _read_device_seconds(self) -> float:
        """Return the time between the two timestamps by the device's own clock."""
        if not self.device.queries:
            return 0.0
        ticks = (ctypes.c_uint64 * 2)()
        flags = CONSTANTS["VK_QUERY_RESULT_64_BIT"] | CONSTANTS["VK_QUERY_RESULT_WAIT_BIT"]
        self.vulkan.call(
            "vkGetQueryPoolResults", self.device.handle, self.device.queries, 0, 2, 16, ctypes.addressof(ticks),
            8, flags,
        )  # fmt: skip
        mask = (1 << self.device.timestamp_bits) - 1
        return float((ticks[1] - ticks[0] & mask) * self.device.physical.limits["timestampPeriod"] / 1e9)

    def dispatch(self, kernel: int, groups: int, buffers: Sequence[Buffer], *numbers: int) -> None:
        """Run a kernel on buffers with numbers."""
        device, vulkan = self.device, self.vulkan
        pool = make(
            "VkDescriptorSetAllocateInfo", descriptorPool=device.descriptors, descriptorSetCount=1,
            pSetLayouts=device.sets,
        )  # fmt: skip
        place = (ctypes.c_uint64 * 1)()
        vulkan.call(
            "vkAllocateDescriptorSets", device.handle, ctypes.addressof(pool), ctypes.addressof(place)
        )
        storage = CONSTANTS["VK_DESCRIPTOR_TYPE_STORAGE_BUFFER"]
        writes = [
            make(
                "VkWriteDescriptorSet", dstSet=place[0], dstBinding=number, descriptorCount=1,
                descriptorType=storage,
                pBufferInfo=make("VkDescriptorBufferInfo", buffer=buffer.handle, range=buffer.size),
            )
            for number, buffer in enumerate(buffers)
        ]  # fmt: skip
        array = make_array(STRUCTURE_TYPES["VkWriteDescriptorSet"], writes)
        vulkan.do("vkUpdateDescriptorSets", device.handle, len(writes), ctypes.addressof(array), 0, None)
        values = make_array(
            ctypes.c_uint32, [number & 0xFFFFFFFF for number in numbers] + [0] * (NUMBERS - len(numbers))
        )
        vulkan.do("vkCmdBindPipeline", self.buffer, COMPUTE, kernel)
        vulkan.do(
            "vkCmdBindDescriptorSets",
            self.buffer,
            COMPUTE,
            device.layout,
            0,
            1,
            ctypes.addressof(place),
            0,
            None,
        )
        vulkan.do(
            "vkCmdPushConstants", self.buffer, device.layout, STAGE, 0, 4 * NUMBERS, ctypes.addressof(values)
        )
        vulkan.do("vkCmdDispatch", self.buffer, groups, 1, 1)
        self.wait()

    def copy(
        self, source: Buffer, target: Buffer, size: int, *, source_offset: int = 0, target_offset: int = 0
    ) -> None:
        """Copy between buffers."""
        region = make("VkBufferCopy", srcOffset=source_offset, dstOffset=target_offset, size=size)
        self.vulkan.do(
            "vkCmdCopyBuffer", self.buffer, source.handle, target.handle, 1, ctypes.addressof(region)
        )
        self.wait()

    def wait(self) -> None:
        """Let the next command see, also on the host, what the previous ones wrote."""
        access = CONSTANTS["VK_ACCESS_MEMORY_READ_BIT"] | CONSTANTS["VK_ACCESS_MEMORY_WRITE_BIT"]
        barrier = make("VkMemoryBarrier", srcAccessMask=access, dstAccessMask=access)
        self.vulkan.do(
            "vkCmdPipelineBarrier", self.buffer, ALL_STAGES, HOST_TOO, 0, 1, ctypes.addressof(barrier),
            0, None, 0, None,
        )  # fmt: skip
