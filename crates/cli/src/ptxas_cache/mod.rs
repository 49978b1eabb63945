//! `ptxkit-ptxas-cache`: NVIDIA's ptxas behind the compute cache.
//!
//! A command line that assembles one file is looked up in the cache. On a miss the real ptxas
//! assembles a copy of the file in a private folder, and its results are stored: the cubin, and
//! the texts of both output streams. Every other command line replaces this process with the real
//! ptxas. So does every doubt: the results are always those of the real ptxas.
//!
//! Why a private folder:
//! - The PTX in the key is the PTX that was assembled, also if the file changes meanwhile.
//! - The cubin in the cache is the one that was made, also if two processes write one output file.
//! - The names in it are unique. If one of them is in the cubin, the cubin depends on file names
//!   and is not stored. In the texts they are replaced by the names on the command line.

mod assembly;
mod invocation;
mod log;
mod real;
mod stored;

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::time::Instant;

use ptxkit::cache::{Cache, Digest, Key, KeyParts, Lookup, Provenance, Record};
use terminal::output::{Escaped, eprint};

use assembly::{Assembled, Assembly};
use input::ShowName as _;
use invocation::Invocation;
use real::Real;
use stored::Stored;

/// The exit status of ptxas for every error.
const FAILED: u8 = 255;

/// Part of every key: changed with the form of [`Stored`] and with the meaning of the options.
const SCHEMA: &str = "ptxas-cache 1";

/// Runs the program with these arguments, which are ptxas's; returns the exit status.
pub fn run(arguments: Vec<OsString>) -> u8 {
    log::start();
    let real = match Real::find() {
        Ok(real) => real,
        Err(message) => {
            eprint(&format!("ptxas fatal   : {}\n", Escaped::new(&message)));
            return FAILED;
        }
    };
    // The cache ends here, with its locks, before this process becomes the real ptxas.
    match Invocation::read(&arguments).and_then(|invocation| serve(&real, &invocation)) {
        Ok(status) => status,
        Err(why) => {
            log::line(format_args!("ptxas: forwarded: {why}"));
            let error = real.replace_this_process(&arguments);
            let message = format!("{}: {error}", real.path().shown());
            eprint(&format!("ptxas fatal   : {message}\n"));
            FAILED
        }
    }
}

/// Does what the real ptxas does for `invocation`; returns the exit status. The error is a reason
/// to run the real ptxas: nothing was printed then.
fn serve(real: &Real, invocation: &Invocation) -> Result<u8, String> {
    let started = Instant::now();
    let cache = Cache::from_environment();
    if !cache.policy().enabled() {
        return Err("CUDA_CACHE_DISABLE is 1".into());
    }
    let ptx = invocation.read_input()?;
    let identity = real.identity(&cache)?;
    let key = key(&identity, invocation, &ptx);
    let name = invocation.input().shown().to_string();
    let (stored, how) = match cache.lookup_of(&key, ptx.len()) {
        Lookup::Hit(blob) => match Stored::read(&blob) {
            Some(stored) => (stored, "from the cache"),
            None => {
                cache.discard(&key, "it does not have the form of ptxas's results");
                return Err("the entry in the cache is damaged".into());
            }
        },
        Lookup::Miss(lock) => {
            let compiling = Instant::now();
            let made = match (Assembly { real, invocation }).run(&ptx)? {
                Assembled::Made(made) => made,
                Assembled::Failed(failed) => {
                    drop(lock);
                    failed.print(invocation);
                    log::line(format_args!("ptxas: {name}: status {}", failed.status));
                    return Ok(failed.status);
                }
            };
            if !real.is_unchanged() {
                return Err("the file of ptxas was replaced while it ran".into());
            }
            if made.writes_both() && streams_are_one() {
                return Err("ptxas wrote to both output streams, which are one file".into());
            }
            let provenance = Provenance {
                source: name.clone(),
                target: invocation.target().to_owned(),
                compiler: identity,
                compile_time: compiling.elapsed(),
                ..Provenance::default()
            };
            #[allow(unsafe_code, reason = "code in the cache is trusted")]
            // SAFETY: the ptxas in the key made it of this PTX a moment ago, with the options in
            // the key: `real` is unchanged, and the PTX and the result lay in a private folder.
            let _ = unsafe { lock.put(&provenance, &made.to_bytes()) };
            (made, "compiled")
        }
        Lookup::Failed(_) | Lookup::Off => return Err("the cache cannot be used".into()),
    };
    if stored.writes_both() && streams_are_one() {
        return Err("the texts of both output streams go to one file".into());
    }
    // Before the texts are printed: if it fails, the real ptxas prints them, and the error.
    let mut output = File::create(invocation.output())
        .map_err(|error| format!("the output file cannot be opened: {error}"))?;
    output
        .write_all(&stored.cubin)
        .map_err(|error| format!("the output file cannot be written: {error}"))?;
    drop(output);
    stored.texts.print(invocation);
    #[allow(unsafe_code, reason = "what the cache contains is trusted")]
    // SAFETY: ptxas made the cubin of this text, now or when the entry was stored.
    unsafe {
        cache.record(Record::Source, Digest::of(&stored.cubin), &name, &ptx);
    }
    let milliseconds = started.elapsed().as_secs_f64() * 1e3;
    log::line(format_args!("ptxas: {name}: {how} in {milliseconds:.1} ms"));
    Ok(0)
}

/// The key of the results of `invocation` for this PTX. It has no file names: the results that
/// are stored do not depend on them.
fn key(identity: &str, invocation: &Invocation, ptx: &[u8]) -> Key {
    let options = [SCHEMA.as_bytes(), b"\0", &invocation.key_bytes()].concat();
    Key::new(&KeyParts {
        source: Digest::of(ptx),
        target: invocation.target(),
        // The driver has no part in it.
        driver_version: 0,
        compiler: identity,
        options: &options,
    })
}

/// Whether standard output and standard error are one file, in which the order of their texts
/// shows. The order is not stored.
#[cfg(unix)]
fn streams_are_one() -> bool {
    use std::io;
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let file = |descriptor: std::os::fd::BorrowedFd<'_>| {
        let metadata = File::from(descriptor.try_clone_to_owned()?).metadata()?;
        io::Result::Ok((metadata.dev(), metadata.ino()))
    };
    match (file(io::stdout().as_fd()), file(io::stderr().as_fd())) {
        (Ok(output), Ok(error)) => output == error,
        _ => false,
    }
}

#[cfg(not(unix))]
fn streams_are_one() -> bool {
    true
}
