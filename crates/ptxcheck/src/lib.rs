//! `ptxcheck`: checks and lints PTX files.

#![forbid(unsafe_code)]

mod args;
mod cfg;
mod check;
pub mod command_line;
mod config;
mod contents;
mod drawing;
mod explain;
mod fix;
mod floors;
mod format;
mod inputs;
mod linter;
mod origin;
mod parallel;
mod progress;
mod report;
mod resources;
mod rules;
mod selection;
mod server;
mod shown;
mod statistics;
mod suppression;
mod texts;
mod verdict;
mod watch;
