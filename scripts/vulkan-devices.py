"""The Vulkan devices of this machine, as JSON: {"devices": [{"index", "name", "kind", "driver", "info"}], "why": ""}.

`index` is the number for GGML_VK_VISIBLE_DEVICES. `why` is the reason if there is none. Needs only Python 3:
vulkaninfo is installed on few machines, and the format of its driver version changes between releases.
"""

import ctypes
import json

KINDS = ("other", "integrated", "discrete", "virtual", "cpu")

INSTANCE_CREATE_INFO = 1
APPLICATION_INFO = 0
PROPERTIES_2 = 1000059001
DRIVER_PROPERTIES = 1000196000
VULKAN_1_2 = (1 << 22) | (2 << 12)


class Application(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("version", ctypes.c_uint32),
        ("engine", ctypes.c_char_p),
        ("engine_version", ctypes.c_uint32),
        ("api_version", ctypes.c_uint32),
    )


class InstanceCreate(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.POINTER(Application)),
        ("layers", ctypes.c_uint32),
        ("layer_names", ctypes.c_void_p),
        ("extensions", ctypes.c_uint32),
        ("extension_names", ctypes.c_void_p),
    )


class Driver(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("id", ctypes.c_uint32),
        ("name", ctypes.c_char * 256),
        ("info", ctypes.c_char * 256),
        ("conformance", ctypes.c_uint8 * 4),
    )


class Properties(ctypes.Structure):
    """VkPhysicalDeviceProperties2; the limits at its end are not read."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("api_version", ctypes.c_uint32),
        ("driver_version", ctypes.c_uint32),
        ("vendor", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("name", ctypes.c_char * 256),
        ("rest", ctypes.c_uint64 * 256),
    )


def devices() -> tuple[list[dict], str]:
    try:
        vulkan = ctypes.CDLL("libvulkan.so.1")
    except OSError:
        return [], "libvulkan.so.1, the Vulkan loader, is not installed"
    application = Application(type=APPLICATION_INFO, api_version=VULKAN_1_2)
    create = InstanceCreate(type=INSTANCE_CREATE_INFO, application=ctypes.pointer(application))
    instance = ctypes.c_void_p()
    if vulkan.vkCreateInstance(ctypes.byref(create), None, ctypes.byref(instance)) != 0:
        return [], "the Vulkan loader finds no driver"
    try:
        count = ctypes.c_uint32()
        vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
        handles = (ctypes.c_void_p * count.value)()
        vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles)
        found = []
        for index in range(count.value):
            driver = Driver(type=DRIVER_PROPERTIES)
            about = Properties(type=PROPERTIES_2, next=ctypes.addressof(driver))
            vulkan.vkGetPhysicalDeviceProperties2(ctypes.c_void_p(handles[index]), ctypes.byref(about))
            kind = KINDS[about.kind] if about.kind < len(KINDS) else "other"
            texts = {"name": about.name, "driver": driver.name, "info": driver.info}
            texts = {key: text.decode("utf-8", "replace") for key, text in texts.items()}
            found.append({"index": index, "kind": kind, **texts})
        return found, "" if found else "the Vulkan loader finds no device"
    finally:
        vulkan.vkDestroyInstance(instance, None)


found, why = devices()
print(json.dumps({"devices": found, "why": why}))
