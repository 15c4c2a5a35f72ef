//! Filters of system calls: programs that the kernel runs for each system call of a thread and of
//! all that the thread starts (seccomp(2)).

#![allow(unsafe_code, reason = "seccomp(2) has no safe form")]
#![allow(dead_code, reason = "each test needs a part of it")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "codes of instructions have 16 bits"
)]

use std::io;
use std::mem::offset_of;

use nix::libc::{self, c_long, seccomp_data, sock_filter, sock_fprog};
use nix::sys::prctl;

/// Returns the first instructions of a filter. The numbers of system calls are those of this
/// architecture: calls of another one pass.
pub(crate) fn start() -> Vec<sock_filter> {
    let is_this = sock_filter {
        jt: 1,
        ..jump_unless(ARCHITECTURE, 0)
    };
    vec![load(offset_of!(seccomp_data, arch)), is_this, ALLOW]
}

/// Loads 32 bits of the system call.
pub(crate) fn load(offset: usize) -> sock_filter {
    let code = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    instruction(code, u32::try_from(offset).unwrap())
}

/// Returns the offset of the lower half of an argument.
pub(crate) const fn argument(index: usize) -> usize {
    let low_half = if cfg!(target_endian = "big") { 4 } else { 0 };
    offset_of!(seccomp_data, args) + index * size_of::<u64>() + low_half
}

/// Skips that many instructions unless what was loaded is `value`.
pub(crate) fn jump_unless(value: u32, count: u8) -> sock_filter {
    let code = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    sock_filter {
        jf: count,
        ..instruction(code, value)
    }
}

/// Ends the system call with an error.
pub(crate) fn fail(errno: i32) -> sock_filter {
    let errno = number(errno.into());
    instruction(libc::BPF_RET, libc::SECCOMP_RET_ERRNO | errno)
}

pub(crate) fn number(number: c_long) -> u32 {
    u32::try_from(number).unwrap()
}

const fn instruction(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Has the kernel run a program for each system call of this thread and of its children.
pub(crate) fn install(program: &[sock_filter]) -> io::Result<()> {
    prctl::set_no_new_privs()?;
    let program = sock_fprog {
        len: program.len().try_into().unwrap(),
        filter: program.as_ptr().cast_mut(),
    };
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: `program` leads to that many instructions, which the kernel copies.
    match unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Lets the system call pass.
pub(crate) const ALLOW: sock_filter = instruction(libc::BPF_RET, libc::SECCOMP_RET_ALLOW);

/// The number of this architecture for seccomp(2) (`AUDIT_ARCH_*` in linux/audit.h), or zero, with
/// which nothing is filtered.
pub(crate) const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else if cfg!(target_arch = "arm") {
    0x4000_0028
} else {
    0
};
