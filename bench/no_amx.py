"""Takes AMX from this process: all engines are measured with the vector instructions that Octet uses.

Linux gives a process the tile registers only on request (arch_prctl, ARCH_REQ_XCOMP_PERM). A seccomp filter that refuses the request makes every library in the
process see a CPU without AMX, whether or not it has a switch of its own. Must be called before any engine is loaded.

SPDX-License-Identifier: MIT
"""
import ctypes as C
import os
import platform
import struct

ARCH_PRCTL, REQUEST_PERMISSION = 158, 0x1023
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
X86_64 = 0xC000003E
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF: load a word of the call's description, compare with a constant, return
ALLOW, REFUSE = 0x7FFF0000, 0x00050001  # EPERM


def cpu_has_amx():
    try:
        return " amx_tile" in open("/proc/cpuinfo").read()
    except OSError:
        return False


def forbid_amx():
    """True when no library of this process can use AMX from now on."""
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_VNNI")
    os.environ.setdefault("DNNL_MAX_CPU_ISA", "AVX512_CORE_VNNI")
    if platform.machine() not in ("x86_64", "AMD64") or not cpu_has_amx():
        return True
    program = [(LOAD, 0, 0, 4), (EQUAL, 0, 5, X86_64), (LOAD, 0, 0, 0), (EQUAL, 0, 3, ARCH_PRCTL), (LOAD, 0, 0, 16), (EQUAL, 0, 1, REQUEST_PERMISSION),
               (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
    code = C.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    head = C.create_string_buffer(struct.pack("HxxxxxxQ", len(program), C.addressof(code)))
    libc = C.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [C.c_int] + [C.c_ulong] * 4
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, C.addressof(head), 0, 0):
        return False
    libc.syscall.restype = C.c_long
    return libc.syscall(C.c_long(ARCH_PRCTL), C.c_long(REQUEST_PERMISSION), C.c_long(18)) != 0
