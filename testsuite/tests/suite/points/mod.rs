//! Contexts of interrupted points: at any instruction, in crash reports, core files and debuggers.

mod broken_stacks;
mod crash_reports;
mod debuggers;
pub(crate) mod every_instruction;
mod found_libraries;
mod frame_addresses;
mod hybrid_frames;
mod sentry;
mod tail_jumps;
mod two_images;
mod unwinding;
mod verified_captures;
