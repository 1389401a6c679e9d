//! The registers of a process that is traced.

use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;

/// The instruction of a system call.
pub const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

/// `orig_rax` of a thread that is not in a system call.
const NO_CALL: u64 = u64::MAX;

/// The registers of a stopped thread.
#[derive(Clone, Copy)]
pub struct Registers(libc::user_regs_struct);

impl Registers {
    pub fn of(thread: Pid) -> nix::Result<Self> {
        ptrace::getregs(thread).map(Self)
    }

    pub fn set(&self, thread: Pid) -> nix::Result<()> {
        ptrace::setregs(thread, self.0)
    }

    /// The address of the next instruction.
    pub fn instruction(&self) -> u64 {
        self.0.rip
    }

    /// Returns whether the kernel starts an interrupted system call again when the thread goes on.
    pub fn restarts_system_call(&self) -> bool {
        (-600..0).contains(&(self.0.rax as i64)) && self.0.orig_rax as i64 >= 0
    }

    /// These registers, without a system call that the kernel would go on with.
    pub fn outside_system_call(self) -> Self {
        Self(libc::user_regs_struct { orig_rax: NO_CALL, ..self.0 })
    }

    /// These registers, about to copy the process as `fork` does: by the system call instruction at this address. The
    /// copy is a child of the process's parent.
    pub fn forking(self, system_call: u64) -> Self {
        Self(libc::user_regs_struct {
            rip: system_call,
            rax: libc::SYS_clone as u64,
            orig_rax: NO_CALL,
            rdi: (libc::CLONE_PARENT | libc::SIGCHLD) as u64,
            rsi: 0,
            rdx: 0,
            r10: 0,
            r8: 0,
            ..self.0
        })
    }
}
