//! Single steps of an emulated program, by the emulator's interface for debuggers (GDB's remote serial protocol). After
//! each step the program's own handler of SIGTRAP runs, as where the kernel sends the signal.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context as _, Result, bail, ensure};

use super::{Emulated, command_on};
use crate::{command, llvm, run};

/// Steps through a program from its symbol `step_on` to `step_off`, at most `limit` instructions. The handler runs
/// after some of them: each so many of its libraries, and of the program itself. Returns what the program prints.
///
/// # Errors
/// If the program ends before, or the emulator refuses a request.
pub fn step(machine: &Emulated, program: &Path, every: [usize; 2], limit: usize) -> Result<String> {
    let nm = run(command(llvm("llvm-nm"), &[]).arg(program)).expect_success().stdout;
    let symbols: HashMap<&str, u64> = nm
        .lines()
        .filter_map(|line| {
            let (address, name) = (line.split(' ').next()?, line.rsplit(' ').next()?);
            Some((name, u64::from_str_radix(address, 16).ok()?))
        })
        .collect();
    let socket = program.with_extension("socket");
    let printed = program.with_extension("printed");
    let plain = command_on(Some(machine), program, &[]);
    let mut emulator = command(plain.get_program(), &["-g"]);
    emulator.arg(&socket).args(plain.get_args()).stdin(Stdio::null()).stdout(fs::File::create(&printed)?);
    let mut child = Running(emulator.spawn().context("the emulator")?);
    let stream = (0..200).find_map(|_| {
        thread::sleep(Duration::from_millis(50));
        UnixStream::connect(&socket).ok()
    });
    let mut stub = Stub { stream: stream.context("the emulator's socket")?, read: Vec::new() };
    // Some bytes take long where the machine has other work.
    stub.stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let offsets = stub.ask("qOffsets")?;
    let text = offsets.split(['=', ';']).nth(1).context("an address")?;
    let start = u64::from_str_radix(text, 16)?;
    // A program that is not position-independent is where its symbols say.
    let bias = if symbols["step_on"] > start { 0 } else { start };
    let [on, off, handled] = ["step_on", "step_off", "step_handled"].map(|name| symbols[name] + bias);
    stub.stop_at(on, true)?;
    stub.go("c")?;
    stub.stop_at(on, false)?;
    let mut at = stub.place()?;
    ensure!(at.0 == on, "it stopped at {:#x}", at.0);
    let own = start..=symbols.values().map(|symbol| symbol + bias).max().context("symbols")?;
    let mut counts = [0; 2];
    for _ in 0..limit {
        if at.0 == off {
            break;
        }
        let of = usize::from(own.contains(&at.0));
        if counts[of] % every[of] == 0 {
            stub.handle(handled, at)?;
        }
        counts[of] += 1;
        stub.go("s")?;
        at = stub.place()?;
    }
    stub.ask("D")?;
    // At the program's end the emulator sends a packet, and waits for its acknowledgement while there is a connection.
    drop(stub);
    let status = child.0.wait()?;
    ensure!(status.success(), "the program ended with {status}");
    let text = fs::read_to_string(&printed)?;
    let _ = fs::remove_file(&socket);
    fs::remove_file(&printed)?;
    Ok(text)
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The emulator's side of the protocol.
struct Stub {
    stream: UnixStream,
    read: Vec<u8>,
}

impl Stub {
    /// Sends a packet, and returns the answer.
    fn ask(&mut self, packet: &str) -> Result<String> {
        let sum = packet.bytes().fold(0_u8, u8::wrapping_add);
        write!(self.stream, "${packet}#{sum:02x}")?;
        loop {
            let start = self.read.iter().position(|byte| *byte == b'$');
            let end = self.read.iter().position(|byte| *byte == b'#');
            if let (Some(start), Some(end)) = (start, end)
                && self.read.len() >= end + 3
            {
                let answer = String::from_utf8_lossy(&self.read[start + 1..end]).into_owned();
                self.read.drain(..end + 3);
                self.stream.write_all(b"+")?;
                return Ok(answer);
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes)?;
            ensure!(count > 0, "the emulator ended behind {packet}");
            self.read.extend(&bytes[..count]);
        }
    }

    /// Lets the program run, until it stops.
    fn go(&mut self, packet: &str) -> Result<()> {
        let answer = self.ask(packet)?;
        ensure!(answer.starts_with(['S', 'T']), "the program ended: {answer}");
        Ok(())
    }

    /// Sets a breakpoint, or takes it away.
    fn stop_at(&mut self, address: u64, is_set: bool) -> Result<()> {
        let answer = self.ask(&format!("{}0,{address:x},4", if is_set { 'Z' } else { 'z' }))?;
        if answer != "OK" {
            bail!("a breakpoint at {address:#x}: {answer}");
        }
        Ok(())
    }

    /// The program counter, and the stack pointer.
    fn place(&mut self) -> Result<(u64, u64)> {
        let registers = self.ask("g")?;
        let register = |number: usize| {
            let digits = registers.get(number * 16..).and_then(|rest| rest.get(..16)).context("registers")?;
            Ok::<u64, anyhow::Error>(u64::from_str_radix(digits, 16)?.swap_bytes())
        };
        Ok((register(32)?, register(31)?))
    }

    /// Lets the program handle SIGTRAP, until it is back at a place. The handler may come through the same code before
    /// it is at its end.
    fn handle(&mut self, end: u64, back_at: (u64, u64)) -> Result<()> {
        for (place, packet) in [(end, "C05"), (back_at.0, "c")] {
            self.stop_at(place, true)?;
            self.go(packet)?;
            self.stop_at(place, false)?;
        }
        let place = self.place()?;
        ensure!(place == back_at, "the handler went on at {:#x}", place.0);
        Ok(())
    }
}
