//! Computes what the kernel would answer to a call, for calls that must not be tried.
//!
//! A machine for the few classic BPF instructions that a filter uses, and the kernel's rule for
//! several filters. It shares no code with what made the programs.

use super::super::INSTRUCTION_BYTES;

/// What arrives at a filter, `struct seccomp_data`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) number: u32,
    pub(super) architecture: u32,
    pub(super) arguments: [u64; 6],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    Fails(i32),
    Killed,
}

const RETURN_ALLOW: u32 = 0x7fff_0000;
const RETURN_ERRNO: u32 = 0x0005_0000;
const RETURN_KILL_PROCESS: u32 = 0x8000_0000;
const RETURN_ACTION: u32 = 0xffff_0000;

/// The answer of all filters together: as `seccomp_run_filters` of the kernel, from the last
/// installed to the first, the first answer of the strictest action.
pub(super) fn verdict(programs: &[Vec<u8>], call: Call) -> Verdict {
    let mut strictest = RETURN_ALLOW;
    for program in programs.iter().rev() {
        let answer = run(program, call);
        // Actions are ordered as signed numbers, so that killing the process is the least.
        if ((answer & RETURN_ACTION) as i32) < ((strictest & RETURN_ACTION) as i32) {
            strictest = answer;
        }
    }
    match strictest & RETURN_ACTION {
        RETURN_ALLOW => Verdict::Allowed,
        RETURN_ERRNO => Verdict::Fails((strictest & 0xffff) as i32),
        RETURN_KILL_PROCESS => Verdict::Killed,
        other => panic!("action {other:#x}"),
    }
}

fn run(program: &[u8], call: Call) -> u32 {
    let data = data_of(call);
    let mut accumulator = 0u32;
    let mut position = 0usize;
    loop {
        let at = position * INSTRUCTION_BYTES;
        let instruction = &program[at..at + INSTRUCTION_BYTES];
        let code = u16::from_ne_bytes([instruction[0], instruction[1]]);
        let (jump_true, jump_false) = (usize::from(instruction[2]), usize::from(instruction[3]));
        let k = u32::from_ne_bytes(instruction[4..].try_into().unwrap());
        position += 1;
        let mut jump = |holds: bool| position += if holds { jump_true } else { jump_false };
        match code {
            0x20 => {
                let offset = k as usize;
                accumulator = u32::from_ne_bytes(data[offset..offset + 4].try_into().unwrap());
            }
            0x54 => accumulator &= k,
            0x05 => position += k as usize,
            0x15 => jump(accumulator == k),
            0x25 => jump(accumulator > k),
            0x35 => jump(accumulator >= k),
            0x06 => return k,
            other => panic!("instruction {other:#x} at {}", position - 1),
        }
    }
}

fn data_of(call: Call) -> [u8; 64] {
    let mut data = [0; 64];
    data[..4].copy_from_slice(&call.number.to_ne_bytes());
    data[4..8].copy_from_slice(&call.architecture.to_ne_bytes());
    for (index, argument) in call.arguments.iter().enumerate() {
        let at = 16 + index * 8;
        data[at..at + 8].copy_from_slice(&argument.to_ne_bytes());
    }
    data
}
