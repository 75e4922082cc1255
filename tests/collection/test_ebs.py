"""Test that an EBS volume's device name is read from its identify data, with an emulated NVMe controller.

The emulator takes the command as Linux does (struct nvme_passthru_cmd of linux/nvme_ioctl.h), with the numbers of the
NVM Express base specification. It refuses what a controller refuses.
"""

from __future__ import annotations

import ctypes
import errno

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils import ebs


class PassthroughCommand(ctypes.Structure):
    """Struct nvme_passthru_cmd."""

    _fields_ = [
        *((name, ctypes.c_uint8) for name in ("opcode", "flags")),
        ("rsvd1", ctypes.c_uint16),
        *((name, ctypes.c_uint32) for name in ("nsid", "cdw2", "cdw3")),
        *((name, ctypes.c_uint64) for name in ("metadata", "addr")),
        *((name, ctypes.c_uint32) for name in ("metadata_len", "data_len")),
        *((f"cdw{number}", ctypes.c_uint32) for number in range(10, 16)),
        *((name, ctypes.c_uint32) for name in ("timeout_ms", "result")),
    ]


def request_number(kind, number, size):
    """Return _IOWR of asm-generic/ioctl.h."""
    return (3 << 30) | (size << 16) | (ord(kind) << 8) | number


@pytest.fixture
def volume(monkeypatch, tmp_path):
    """Give an emulated volume: the names in its controller and in its namespaces, and the file that stands for it."""
    names = {"controller": b"", "namespaces": {1: b""}}

    def answer(_descriptor, request, buffer):
        assert request == request_number("N", 0x41, ctypes.sizeof(PassthroughCommand))
        command = PassthroughCommand.from_buffer(buffer)
        if command.opcode != 0x06 or command.data_len != 4096 or command.cdw10 not in (0, 1):
            raise OSError(errno.EINVAL, "Invalid Field in Command")
        if command.cdw10 == 0 and command.nsid not in names["namespaces"]:
            raise OSError(errno.EIO, "Invalid Namespace or Format")
        name = names["controller"] if command.cdw10 else names["namespaces"][command.nsid]
        data = bytearray(4096)
        start = 3072 if command.cdw10 else 384
        data[start : start + len(name)] = name
        ctypes.memmove(command.addr, bytes(data), len(data))
        return 0

    monkeypatch.setattr(ebs.fcntl, "ioctl", answer)
    names["path"] = tmp_path / "nvme1n1"
    names["path"].touch()
    return names


@pytest.mark.parametrize(
    ("controller", "namespace", "name"),
    [
        (b"/dev/sdf".ljust(32), b"", "sdf"),  # padded with blanks, as in the EBS user guide
        (b"sdg\0", b"", "sdg"),
        (b"/dev/sdf", b"/dev/sdh\0", "sdh"),
        (b"", b"", ""),
    ],
)
def test_name_is_that_of_the_namespace_or_of_the_controller(volume, controller, namespace, name):
    volume.update(controller=controller, namespaces={1: namespace})
    assert ebs.read_device_name(str(volume["path"])) == name


def test_volume_that_does_not_answer_has_no_name(volume, tmp_path):
    volume["namespaces"] = {2: b"/dev/sdf"}
    assert ebs.read_device_name(str(volume["path"])) == ""
    assert ebs.read_device_name(str(tmp_path / "absent")) == ""
