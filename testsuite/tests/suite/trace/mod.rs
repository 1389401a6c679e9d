//! Traces of calls (`--pcce-trace`): what programs write, and what `pcce trace` reads.

mod checks;
mod chunk_beginnings;
mod compression;
mod core_files;
mod divergent_runs;
mod ends;
mod events;
mod file;
mod forks;
mod function_names;
mod jumps;
mod left_out;
mod lines;
mod merged_runs;
mod rings;
mod shared_libraries;
mod slurm;
mod stacks;
mod tracer;
