//! Selects the PTX of a load, compiles it through the cache, and makes the image that the driver is given instead.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use api::CUcontext;
use compiles::Saved;
use image::{Compression, Image, JitPolicy, Packer, Target};
use ptxkit::cache::{Cache, OnCompile};
use ptxkit::driver::{self, Context, Device, Driver};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{LoadError, Loader, Source};
use ptxkit::ptx;
use ptxkit::ptx::diagnostic::Severity;

use super::options::Options;
use super::restored::Restored;
use super::sliced::Sliced;
use super::{report, without_panic};

/// What is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A module, into the context that is current.
    Module,
    /// The only input of a link, in the context that is current.
    Link,
    /// A library, which the driver loads into each context in which it is used.
    Library,
}

/// What becomes of a load.
pub enum Decision {
    /// The driver is given this image.
    Serve(Served),
    /// It is cut, and its slices are loaded when they are used. The context is that of a module.
    Cut(Sliced, CUcontext),
    /// The driver is given the program's image.
    Forward,
    /// The load fails with this error.
    Refuse(c_int),
}

/// Why a load is not served.
enum Unserved {
    /// There is no PTX to compile, or anything is in doubt.
    Forward(String),
    /// The driver would compile PTX, which `PTXKIT_ON_COMPILE` forbids.
    Forbidden(String),
}

impl<T: Into<String>> From<T> for Unserved {
    fn from(why: T) -> Unserved {
        Unserved::Forward(why.into())
    }
}

/// `CUDA_ERROR_JIT_COMPILATION_DISABLED`
const COMPILATION_DISABLED: c_int = 223;

/// An image for the driver.
pub struct Served {
    pub image: Vec<u8>,
    reason: String,
    is_compiled: bool,
    time: Duration,
}

impl Served {
    pub fn milliseconds(&self) -> f32 {
        self.time.as_secs_f32() * 1e3
    }

    /// Reports that the driver has loaded it.
    pub fn report(&self, entry: &str) {
        report::served(entry, &self.reason, (self.is_compiled, warns()), self.time);
    }
}

struct State {
    driver: Driver,
    cache: Cache,
    /// The first device's, for libraries that are loaded before there is a context. It is never released.
    primary: OnceLock<Context>,
}

/// What a load is served with.
enum Made {
    Whole(Served),
    Cut(Sliced, CUcontext),
}

/// Decides what becomes of a load. `image` returns its image, and `options` its options.
pub fn serve<'a>(
    entry: &'static str,
    kind: Kind,
    image: impl FnOnce() -> Option<Cow<'a, [u8]>>,
    options: impl FnOnce() -> Result<Options, String>,
) -> Decision {
    let served = without_panic(|| {
        if !super::is_on() {
            return Err("PTXKIT_INTERPOSE".into());
        }
        let image = image().ok_or("it is a cubin or unknown")?;
        try_serve(entry, &image, kind, options)
    });
    match served {
        Some(Ok(Made::Whole(served))) => Decision::Serve(served),
        Some(Ok(Made::Cut(sliced, context))) => Decision::Cut(sliced, context),
        Some(Err(Unserved::Forward(why))) => {
            report::forwarded(entry, &why);
            Decision::Forward
        }
        Some(Err(Unserved::Forbidden(why))) => {
            report::refused(entry, &why);
            Decision::Refuse(COMPILATION_DISABLED)
        }
        None => {
            report::forwarded(entry, "an internal error: please report it");
            Decision::Forward
        }
    }
}

/// Whether a compile is worth a warning (`PTXKIT_ON_COMPILE=warn`).
pub fn warns() -> bool {
    state().is_ok_and(|state| state.cache.policy().on_compile() == OnCompile::Warn)
}

fn state() -> Result<&'static State, String> {
    static STATE: OnceLock<Result<State, String>> = OnceLock::new();
    STATE
        .get_or_init(|| {
            let cache = Cache::from_environment();
            // Without a cache, loads that must not compile are refused.
            let policy = cache.policy();
            if !policy.enabled() && policy.on_compile() != OnCompile::Error {
                return Err("the compute cache is disabled".to_owned());
            }
            let driver = Driver::nvidia().map_err(|error| error.to_string())?;
            write_at_exit(&cache);
            Ok(State {
                driver,
                cache,
                primary: OnceLock::new(),
            })
        })
        .as_ref()
        .map_err(Clone::clone)
}

/// What was compiled is written to the store that machines share before the process ends.
#[cfg(feature = "remote")]
fn write_at_exit(cache: &Cache) {
    static CACHE: OnceLock<Cache> = OnceLock::new();
    extern "C" fn at_exit() {
        let _ = without_panic(|| CACHE.get().map(Cache::flush));
    }
    if cache.policy().remote().is_some() && CACHE.set(cache.clone()).is_ok() {
        // SAFETY: the function has this type, and is there as long as the driver's functions, which this library has.
        unsafe { libc::atexit(at_exit) };
    }
}

#[cfg(not(feature = "remote"))]
fn write_at_exit(_: &Cache) {
    if super::variable("PTXKIT_REMOTE").is_some_and(|store| store != "none") {
        report::always("PTXKIT_REMOTE is not used: build the interposer with --features remote");
    }
}

fn try_serve(
    entry: &'static str,
    bytes: &[u8],
    kind: Kind,
    options: impl FnOnce() -> Result<Options, String>,
) -> Result<Made, Unserved> {
    let started = Instant::now();
    let state = state()?;
    let driver = state.driver;
    let restored = Restored::of(driver).map_err(|code| format!("no context is read: {code}"))?;
    // SAFETY: it is used during this call, in which the program keeps its context.
    let current = unsafe { Context::current(driver) }.map_err(|error| error.to_string())?;
    let device = match (&current, kind) {
        (Some(context), _) => *context.device(),
        // The runtime loads libraries before it has a context.
        (None, Kind::Library) => driver.device(0).map_err(|error| error.to_string())?,
        (None, _) => return Err("no context is current".into()),
    };
    let policy = state.cache.policy().jit();
    let opened = image::open(bytes).map_err(|error| error.to_string())?;
    let own = device.target().map_err(|error| error.to_string())?;
    let (text, reason) = ptx(&opened, &own, policy)?;
    // From here on, the driver would compile what is forwarded.
    let doubt = |why: String| match state.cache.policy().on_compile() {
        OnCompile::Error => Unserved::Forbidden(why),
        _ => Unserved::Forward(why),
    };
    let options = options().map_err(doubt)?;
    let targets = targets(driver).map_err(doubt)?;
    let source = Source::new("the program's PTX", text.as_bytes());
    let loader = |context| Loader::new(context, state.cache.clone());
    if options.can_be_cut && kind != Kind::Link && targets.len() == 1 && is_lazy(driver) {
        let planner = loader(planning_context(&device, current.as_ref()).map_err(doubt)?);
        let made = planner.cut(&source, &options.jit);
        if let Some(made) = made.map_err(|error| doubt(error.to_string()))? {
            report::cut(entry, &reason, made.slices(), started.elapsed());
            let saved = save(&text, &options, true);
            let sliced = Sliced::new(made, device, saved);
            return Ok(Made::Cut(sliced, restored.context()));
        }
    }
    let cached = if current.is_none() && targets.len() == 1 {
        let planner = loader(planning_context(&device, None).map_err(doubt)?);
        let found = planner.cached_code(&source, &options.jit);
        found.ok().flatten().map(|code| (planner, code))
    } else {
        None
    };
    let (loader, code) = match (cached, current) {
        (Some(cached), _) => cached,
        (None, current) => {
            let context = match current {
                Some(context) => context,
                None => state.primary_context(&device).map_err(doubt)?,
            };
            let loader = loader(context);
            let code = code(&loader, &text, &own, &options).map_err(doubt)?;
            (loader, code)
        }
    };
    let image = match kind {
        Kind::Module | Kind::Link => code,
        Kind::Library => {
            let codes = (own.as_str(), code, &targets);
            library(&loader, &opened, codes, policy, &options).map_err(doubt)?
        }
    };
    save(&text, &options, false);
    Ok(Made::Whole(Served {
        image,
        reason,
        is_compiled: loader.counters().compiles > 0,
        time: started.elapsed(),
    }))
}

/// Adds PTX to the list of what the program compiles, if the user wants it.
fn save(text: &str, options: &Options, sliced: bool) -> Option<Saved> {
    let file = super::variable(compiles::VARIABLE)?;
    let saved = Saved::module(Path::new(&file), text, &options.jit, sliced);
    report::saved(Some(saved))
}

impl State {
    /// The primary context of the first device, which the compiler needs if the program has none yet.
    fn primary_context(&self, device: &Device) -> Result<Context, String> {
        let context = Context::primary(device).map_err(|error| error.to_string())?;
        Ok(self.primary.get_or_init(|| context).clone())
    }
}

/// The context of a loader that compiles nothing. The compiler is started in it, which may go on after the load, so it
/// is the primary context or none.
fn planning_context(device: &Device, current: Option<&Context>) -> Result<Context, String> {
    let is_active = device.primary_state().is_ok_and(|(_, active)| active);
    let primary = || Context::primary(device).ok();
    if let Some(current) = current.filter(|_| is_active)
        && let Some(primary) = primary().filter(|primary| primary.raw() == current.raw())
    {
        return Ok(primary);
    }
    // SAFETY: no context: nothing is made from it.
    let none = unsafe { Context::from_raw(device, null_mut()) };
    none.map_err(|error| error.to_string())
}

/// Whether the driver loads code when it is used.
fn is_lazy(driver: Driver) -> bool {
    const LAZY: c_uint = 2;
    let mut mode = 0;
    // SAFETY: writes one number.
    let read = unsafe { driver.api().cuModuleGetLoadingMode(&mut mode) };
    read.is_ok() && mode == LAZY
}

/// The targets of the machine's devices.
fn targets(driver: Driver) -> Result<BTreeSet<String>, String> {
    let count = driver.device_count().map_err(|error| error.to_string())?;
    let targets = (0..count).map(|number| driver.device(number)?.target());
    let targets: Result<BTreeSet<String>, _> = targets.collect();
    targets.map_err(|error| error.to_string())
}

/// Returns the PTX that `image::select` chooses for a target, and the reason.
fn ptx<'a>(
    opened: &Image<'a>,
    target: &str,
    policy: JitPolicy,
) -> Result<(Cow<'a, str>, String), String> {
    let target: Target = target.parse().map_err(|_| format!("the target {target}"))?;
    let selection = image::select(std::slice::from_ref(opened), target, policy);
    let selection = selection.map_err(|error| error.to_string())?;
    let text = match (opened, selection.place.entry) {
        (Image::Ptx(ptx), _) => ptx.source.clone(),
        (Image::Fatbin(fatbin), Some(entry)) => {
            let entry = fatbin.entries.get(entry).ok_or("it has no such image")?;
            if !entry.kind.is_ptx() {
                return Err(format!("{} is loaded as it is", selection.reason));
            }
            entry.ptx().map_err(|error| error.to_string())?
        }
        _ => return Err("it is no PTX".to_owned()),
    };
    Ok((text, selection.reason))
}

/// Compiles PTX for a target, through the cache.
fn code(loader: &Loader, text: &str, target: &str, options: &Options) -> Result<Vec<u8>, String> {
    let options = JitOptions {
        target: target.parse().ok(),
        ..options.jit
    };
    let code = loader.code(&Source::new("the program's PTX", text.as_bytes()), &options);
    code.map_err(|error| explained(text, &error))
}

/// An error with the lines of the PTX that are wrong, as ptxkit's checker finds them, or else with the compiler's log.
fn explained(text: &str, error: &LoadError) -> String {
    const MOST: usize = 3;
    let message = error.to_string();
    if !matches!(error, LoadError::Driver(driver::Error::Jit(_))) {
        return message;
    }
    let reading = ptx::read(text);
    let mut found = reading.diagnostics;
    if found.is_empty() {
        found = ptx::check(&reading.module, text);
    }
    found.retain(|found| found.severity == Severity::Error);
    if found.is_empty() {
        return message;
    }
    let mut explanation = message.lines().next().unwrap_or_default().to_owned();
    for found in found.iter().take(MOST) {
        explanation += "\n";
        explanation += ptx::diagnostic::render(text, "PTX", found).trim_end();
    }
    explanation
}

/// Packs a fatbin with code for each architecture of the machine, and the program's images, to which the driver falls
/// back.
fn library(
    loader: &Loader,
    opened: &Image<'_>,
    (own, code_of_own, targets): (&str, Vec<u8>, &BTreeSet<String>),
    policy: JitPolicy,
    options: &Options,
) -> Result<Vec<u8>, String> {
    let mut codes = vec![code_of_own];
    for target in targets.iter().filter(|target| *target != own) {
        // Another kind of device may have a cubin among the images.
        if let Ok((text, _)) = ptx(opened, target, policy) {
            codes.push(code(loader, &text, target, options)?);
        }
    }
    if policy.force_ptx {
        // Of a fatbin the driver would take PTX. It loads code alone.
        return match (codes.pop(), codes.is_empty()) {
            (Some(code), true) => Ok(code),
            _ => Err("CUDA_FORCE_PTX_JIT with several kinds of devices".to_owned()),
        };
    }
    let mut packer = Packer::new(Compression::None);
    for code in &codes {
        let added = image::open(code).ok().map(|image| packer.add(&image));
        if !matches!(added, Some(Ok(()))) {
            // Code of another driver than NVIDIA's.
            return codes.into_iter().next().ok_or_else(String::new);
        }
    }
    packer.add(opened).map_err(|error| error.to_string())?;
    Ok(packer.finish())
}
