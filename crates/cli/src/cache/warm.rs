//! `ptxkit cache warm`: compiles files before programs load them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use input::ShowName as _;
use serde_json::{Value, json};

use super::{CommandOutput, remote, text_of, warm_from};
use crate::errors::{of_driver, of_load};
use crate::progress::Progress;
use crate::report::in_ms;
use ptxkit::cache::{Cache, CacheError, Key, OnCompile, Slicing};
use ptxkit::driver::{self, Context, Selection, select};
use ptxkit::image::{self, Target};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{LoadError, Loader, Warm, Warmed};
use terminal::failure::{FAILED, Failure, VERIFIED};

pub const AFTER_HELP: &str = "\
Loads of the same text with the same options, driver and architecture hit the
compiled code. A module of 64 KiB or more with many kernels is compiled in slices,
which `ptxkit run` and `Loader::load_sliced` use; for programs that load it whole,
give --sliced=never. An NVIDIA target needs NVIDIA's driver and a GPU of any
architecture; --target cpu needs neither.

With --push, machines that read the store that PTXKIT_REMOTE names compile none of
this: `ptxkit cache remote --help` has more. JSON is an object then, with the files as
`warmed`, and `pushed`.

Exit status: 0 all files are in the cache, and pushed, 2 an error.";

#[derive(Clone, Debug, clap::Args)]
pub struct WarmArgs {
    /// PTX files, or fatbins with PTX
    #[arg(required_unless_present = "from")]
    files: Vec<PathBuf>,
    /// Compile what a program loaded, with its options, for the interposer: the file that
    /// `ptxkit exec --save-compiles` wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "optimization", "max_registers", "line_info", "debug", "push"])]
    from: Option<PathBuf>,
    /// The devices, separated by commas: auto, nvidia, nvidia:N or cpu for one of this machine, or an
    /// architecture such as sm_90a
    #[arg(
        long = "target",
        value_name = "TARGET",
        value_delimiter = ',',
        default_value = "auto"
    )]
    targets: Vec<WarmTarget>,
    /// The optimisation level, 0 to 4; the default of the compiler is 4
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=4))]
    optimization: Option<u8>,
    /// The limit of registers for each thread
    #[arg(long, value_name = "N")]
    max_registers: Option<u32>,
    /// Generate line tables, for profilers
    #[arg(long)]
    line_info: bool,
    /// Generate debug information
    #[arg(long)]
    debug: bool,
    /// Compile the kernels apart, for programs that load them so: auto (of large modules),
    /// always or never; the default is PTXKIT_SLICED, or auto
    #[arg(long, value_name = "WHEN")]
    sliced: Option<Slicing>,
    /// Write the blobs to the store that machines share, too
    #[arg(long)]
    push: bool,
}

#[derive(Clone, Copy, Debug)]
enum WarmTarget {
    Device(Selection),
    Architecture(Target),
}

impl std::str::FromStr for WarmTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<WarmTarget, String> {
        if let Ok(target) = text.parse() {
            return Ok(WarmTarget::Architecture(target));
        }
        text.parse().map(WarmTarget::Device).map_err(|_| {
            "it is neither a device (auto, nvidia, nvidia:N, cpu) nor an architecture (sm_90a)"
                .to_owned()
        })
    }
}

pub fn warm(cache: &Cache, args: &WarmArgs) -> Result<CommandOutput, Failure> {
    // The command is there to compile.
    let mut policy = cache.policy().clone().with_on_compile(OnCompile::Allow);
    if let Some(slicing) = args.sliced {
        policy = policy.with_slicing(slicing);
    }
    let cache = &Cache::new(policy);
    if !cache.policy().enabled() {
        return Err(
            Failure::new("the cache is disabled: CUDA_CACHE_DISABLE is 1")
                .help("unset it, so that there is a cache to warm"),
        );
    }
    if cache.folder().is_none() {
        return Err(super::failed(CacheError::NoFolder));
    }
    if let Some(file) = &args.from {
        return args.from(cache, file);
    }
    if args.push {
        remote::check_writable(cache)?;
    }
    let mut all = Vec::new();
    for target in &args.targets {
        let (loader, options) = args.loader(cache, *target)?;
        let device = loader.context().device();
        let name = match options.target {
            Some(target) => target.to_string(),
            None => device.target().map_err(|error| of_driver(&error))?,
        };
        let mut progress = Progress::new("warm");
        let warmed = loader.warm_files_sliced(&args.files, &options, |now| {
            let last = now.last.first().copied().unwrap_or_default();
            progress.show(now.done as u64, now.of as u64, last);
        });
        drop(progress);
        for (path, one) in args.files.iter().zip(&warmed) {
            if let Err(error) = &one.result {
                explained(path, error).print();
            }
        }
        all.push((name, warmed));
    }
    let mut text = String::new();
    let mut rows = Vec::new();
    let mut status = VERIFIED;
    let mut keys = HashSet::new();
    // Later blobs may have evicted earlier ones, so check at the end which are still there.
    for (name, warmed) in &all {
        for (path, one) in args.files.iter().zip(warmed) {
            let outcome = Outcome::of(one, cache);
            if !outcome.is_there() {
                status = FAILED;
            }
            let path_shown = path.shown();
            text += &format!("{name}  {path_shown}  {}\n", outcome.words());
            rows.push(outcome.json(path, name));
            keys.extend(outcome.key().filter(|_| outcome.is_there()));
        }
    }
    let mut json = Value::Array(rows);
    // What came from a store that machines share is written behind its load.
    #[cfg(feature = "remote")]
    let _ = (0..10).any(|_| cache.flush());
    if args.push {
        let pushed = remote::push(cache, &keys)?;
        text += &pushed.text;
        json = json!({ "warmed": json, "pushed": pushed.json });
        if pushed.status != VERIFIED {
            status = FAILED;
        }
    }
    Ok(CommandOutput { text, json, status })
}

impl WarmArgs {
    /// Compiles what a list has.
    fn from(&self, cache: &Cache, file: &Path) -> Result<CommandOutput, Failure> {
        let modules = warm_from::read(file)?;
        let (mut text, mut rows, mut status) = (String::new(), Vec::new(), VERIFIED);
        for target in &self.targets {
            let (loader, options) = self.loader(cache, *target)?;
            let compiled = warm_from::compile(&loader, options, &modules)?;
            text += &compiled.text;
            rows.push(compiled.json);
            if compiled.failed {
                status = FAILED;
            }
        }
        // A store that machines share gets what was compiled.
        #[cfg(feature = "remote")]
        let _ = (0..10).any(|_| cache.flush());
        let json = Value::Array(rows);
        Ok(CommandOutput { text, json, status })
    }

    fn loader(&self, cache: &Cache, target: WarmTarget) -> Result<(Loader, JitOptions), Failure> {
        let (selection, target) = match target {
            WarmTarget::Device(selection) => (selection, None),
            WarmTarget::Architecture(target) => (Selection::Nvidia(None), Some(target)),
        };
        let options = JitOptions {
            optimization: self.optimization,
            max_registers: self.max_registers,
            line_info: self.line_info,
            debug: self.debug,
            target,
            ..JitOptions::default()
        };
        let context = select(selection)
            .and_then(|selected| Context::primary(&selected.device))
            .map_err(|error| match (target, error) {
                (Some(target), driver::Error::DriverMissing(missing)) => {
                    let why = missing.reasons();
                    Failure::new(format!("nothing can be compiled for {target} here: {why}"))
                        .help("NVIDIA's driver has the compiler; --target cpu needs no GPU")
                }
                (_, error) => of_driver(&error),
            })?;
        Ok((Loader::new(context, cache.clone()), options))
    }
}

/// The result for one file.
enum Outcome<'a> {
    Hit(Key),
    Compiled(Key, f64),
    /// The slices, and how many of them were compiled.
    Slices(Key, usize, usize, f64),
    NotKept(Key),
    Evicted(Key),
    Binary,
    Failed(&'a LoadError),
}

impl<'a> Outcome<'a> {
    fn of(warmed: &'a Warmed, cache: &Cache) -> Outcome<'a> {
        match &warmed.result {
            Ok(Warm::Hit(key) | Warm::Compiled(key, _)) if !cache.contains(key) => {
                Outcome::Evicted(*key)
            }
            Ok(Warm::Hit(key)) => Outcome::Hit(*key),
            Ok(Warm::Compiled(key, time)) => Outcome::Compiled(*key, in_ms(*time)),
            Ok(Warm::Slices { index, .. }) if !cache.contains(index) => Outcome::Evicted(*index),
            Ok(Warm::Slices {
                index,
                slices,
                compiled,
                time,
            }) => Outcome::Slices(*index, *slices, *compiled, in_ms(*time)),
            Ok(Warm::NotKept(key)) => Outcome::NotKept(*key),
            // The cache is enabled: checked above.
            Ok(Warm::Binary | Warm::Off) => Outcome::Binary,
            Err(error) => Outcome::Failed(error),
        }
    }

    /// Of the blob, or of the index of its slices.
    fn key(&self) -> Option<Key> {
        match self {
            Outcome::Hit(key)
            | Outcome::Compiled(key, _)
            | Outcome::Slices(key, ..)
            | Outcome::NotKept(key)
            | Outcome::Evicted(key) => Some(*key),
            Outcome::Binary | Outcome::Failed(_) => None,
        }
    }

    /// Whether later loads hit, or do not need the cache.
    fn is_there(&self) -> bool {
        match self {
            Outcome::Hit(_) | Outcome::Compiled(..) | Outcome::Slices(..) | Outcome::Binary => true,
            Outcome::NotKept(_) | Outcome::Evicted(_) | Outcome::Failed(_) => false,
        }
    }

    fn words(&self) -> String {
        match self {
            Outcome::Hit(key) => format!("was there  {}", key.short()),
            Outcome::Compiled(key, ms) => format!("compiled in {ms:.1} ms  {}", key.short()),
            Outcome::Slices(key, slices, 0, _) => {
                format!("was there in {slices} slices  {}", key.short())
            }
            Outcome::Slices(key, slices, compiled, ms) => format!(
                "{compiled} of {slices} slices compiled, {ms:.1} ms of compiling  {}",
                key.short()
            ),
            Outcome::NotKept(_) => {
                "compiled, but not cached: it is larger than the cache, or the folder cannot be written".into()
            }
            Outcome::Evicted(_) => {
                "evicted: the cache is too small for all files (CUDA_CACHE_MAXSIZE), or was cleared".into()
            }
            Outcome::Binary => "a binary for this device: nothing to compile".into(),
            Outcome::Failed(_) => "failed".into(),
        }
    }

    fn json(&self, path: &Path, target: &str) -> Value {
        let (result, ms, error) = match self {
            Outcome::Hit(_) | Outcome::Slices(_, _, 0, _) => ("hit", None, None),
            Outcome::Compiled(_, ms) | Outcome::Slices(_, _, _, ms) => {
                ("compiled", Some(*ms), None)
            }
            Outcome::NotKept(_) => ("not kept", None, None),
            Outcome::Evicted(_) => ("evicted", None, None),
            Outcome::Binary => ("binary", None, None),
            Outcome::Failed(error) => ("failed", None, Some(error.to_string())),
        };
        let (slices, compiled) = match self {
            Outcome::Slices(_, slices, compiled, _) => (Some(slices), Some(compiled)),
            _ => (None, None),
        };
        json!({
            "source": text_of(path),
            "slices": slices,
            "compiled_slices": compiled,
            "target": target,
            "result": result,
            "key": self.key().as_ref().map(Key::to_string),
            "compile_ms": ms,
            "error": error,
        })
    }
}

/// The error, with the affected lines of the file.
fn explained(path: &Path, error: &LoadError) -> Failure {
    let name = path.shown().to_string();
    let bytes = match error {
        LoadError::Read { .. } => Vec::new(),
        _ => input::read(path).unwrap_or_default(),
    };
    match image::open(&bytes) {
        Ok(image) => of_load(error, &name, &image, None),
        Err(_) => Failure::new(error).help("give a PTX file, or a fatbin with PTX"),
    }
}
