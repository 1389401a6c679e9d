//! `pcce`: the command line. Arguments become one validated value ([`cli::Command`]) before any work; each
//! command is a module of [`cli`].
//!
//! Exit status: 0 if everything that was given was done, 2 otherwise; 1 where `pcce trace check` finds a
//! mismatch. A reader that closes its pipe early has what it wants, and is no error.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use pcce::profile::Kind;

fn main() -> ExitCode {
    let command = cli::parse();
    let result = match &command {
        cli::Command::Dict(args) => cli::dict::run(args),
        cli::Command::Link(args) => cli::link::run(args),
        cli::Command::Relink(args) => cli::relink::run(args),
        cli::Command::Adapt(args) => cli::adapt::run(args),
        cli::Command::Decode(args) => cli::decode::run(args),
        cli::Command::Filter(args) => cli::filter::run(args),
        cli::Command::Core(args) => cli::core::run(args),
        cli::Command::Crash { action } => cli::crash::run(action),
        cli::Command::Info(args) => cli::info::run(args),
        cli::Command::Pages(args) => cli::pages::run(args),
        cli::Command::Verified(args) => cli::verified::run(args),
        cli::Command::Graph(args) => cli::graph::run(args),
        cli::Command::Profile { action } => cli::calls::run(action),
        cli::Command::Heap { command } => cli::profile::run(Kind::Heap, command),
        cli::Command::Trace { action } => cli::trace::run(action),
        cli::Command::Cpu { command } => cli::profile::cpu(command),
    };
    match result {
        Ok(status) => status.into(),
        Err(error) if cli::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            cli::message(&format!("{error:#}"));
            cli::Status::Failed.into()
        }
    }
}
