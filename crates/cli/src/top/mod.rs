//! `ptxkit top`: what a compute cache does, by its folder or by the counters of a service.

mod endpoint;
mod folder;
#[cfg(feature = "top")]
mod history;
mod metric;
mod once;
mod reading;
#[cfg(feature = "top")]
mod screen;
#[cfg(feature = "top")]
mod view;

use std::io::IsTerminal;
use std::path::PathBuf;

use endpoint::Endpoint;
use folder::Folder;
use reading::{Reading, Sort};
use terminal::failure::Failure;
use terminal::output::{Format, print};

pub const AFTER_HELP: &str = "\
Keys: q, Esc or Ctrl-C ends it, s sorts the modules by hits or by age.

Hits and misses are counted by the programs that use the cache. Its folder has the hits that they \
have written down, and no misses: a service that answers with its counters has all of it.

Exit status: 0 done, 2 there is nothing to show.";

/// The arguments of `ptxkit top`.
#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// Where a service has its counters, as http://localhost:9400/metrics; the default is the
    /// folder of the cache
    #[arg(value_name = "URL", conflicts_with = "cache")]
    url: Option<String>,
    /// The folder of the cache; the default is that of CUDA_CACHE_PATH
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600), default_value = "2")]
    interval: u32,
    /// What modules are listed first
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    /// Print the numbers once, as where standard output is no terminal
    #[arg(long)]
    once: bool,
    /// The format of what is printed once
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Where the numbers come from.
enum Source {
    Endpoint(Endpoint),
    Folder(Box<Folder>),
}

impl Source {
    fn name(&self) -> &str {
        match self {
            Source::Endpoint(endpoint) => endpoint.name(),
            Source::Folder(folder) => folder.name(),
        }
    }

    fn read(&mut self) -> Result<Reading, Failure> {
        match self {
            Source::Endpoint(endpoint) => endpoint.read(),
            Source::Folder(folder) => folder.read(),
        }
    }
}

/// Shows the numbers until the user ends it, or once.
///
/// # Errors
/// The source cannot be read, or the terminal cannot be used.
pub fn run(args: &TopArgs) -> Result<(), Failure> {
    let mut source = match &args.url {
        Some(url) => Source::Endpoint(Endpoint::new(url)?),
        None => Source::Folder(Box::new(Folder::new(args.cache.as_deref())?)),
    };
    let reading = source.read()?;
    let on_screen = !args.once && args.format == Format::Text && std::io::stdout().is_terminal();
    if on_screen {
        return show(source, reading, args);
    }
    let once = once::Once::new(source.name(), reading, args.sort);
    print(&match args.format {
        Format::Text => once.text(),
        Format::Json => once.json(),
    });
    Ok(())
}

#[cfg(feature = "top")]
fn show(source: Source, reading: Reading, args: &TopArgs) -> Result<(), Failure> {
    let interval = std::time::Duration::from_secs(args.interval.into());
    screen::run(source, reading, interval, args.sort)
}

#[cfg(not(feature = "top"))]
fn show(_: Source, _: Reading, _: &TopArgs) -> Result<(), Failure> {
    Err(Failure::new("this build of ptxkit has no view for terminals").help(
        "`--once` prints the numbers once; `cargo install --path crates/cli --features top` builds the view",
    ))
}
