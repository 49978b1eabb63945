//! What the commands say in a program that was built without remote stores.

use std::collections::HashSet;

use super::CommandOutput;
use super::remote::RemoteCommand;
use ptxkit::cache::{Cache, Key};
use terminal::failure::Failure;

pub fn run(_: &Cache, _: &RemoteCommand) -> Result<CommandOutput, Failure> {
    Err(absent())
}

pub fn list(_: &Cache) -> Result<CommandOutput, Failure> {
    Err(absent())
}

pub fn check_writable(_: &Cache) -> Result<(), Failure> {
    Err(absent())
}

pub fn push(_: &Cache, _: &HashSet<Key>) -> Result<CommandOutput, Failure> {
    Err(absent())
}

fn absent() -> Failure {
    Failure::new("this ptxkit was built without remote stores")
        .help("cargo install --path crates/cli --features remote")
}
