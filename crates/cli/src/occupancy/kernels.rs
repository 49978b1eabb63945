//! The kernels of PTX, cubins and blobs, with the resources of a block.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::cache;
use crate::mapped::FileBytes;
use crate::progress::Progress;
use input::ShowName as _;
use ptxkit::cache::{Cache, Environment, Policy};
use ptxkit::image::{self, CubinKernel, Entry, Image, ImageError, Piece, Target, UnpackLimit};
use ptxkit::lint::flow::Pressure;
use ptxkit::lint::{FunctionContext, ModuleContext};
use ptxkit::occupancy::{MAX_BARRIERS, MAX_REGISTERS, Multiprocessor};
use ptxkit::ptx::ast::{Body, Operand, Statement};
use ptxkit::ptx::names::{Modifier, Opcode};
use ptxkit::ptx::signature::signatures;
use ptxkit::ptx::{self, Diagnostics, Reading};
use terminal::failure::Failure;

/// A kernel, as its image describes it.
pub struct KernelResources {
    pub name: String,
    /// The file, with the line in PTX; empty without one.
    pub place: String,
    pub target: Target,
    pub registers: Registers,
    /// Bytes of static shared memory, without what the system reserves.
    pub shared: u64,
    pub barriers: u32,
    /// The threads of a block, and the directive that says so.
    pub threads: Option<(u32, &'static str)>,
    /// `.minnctapersm`
    pub min_blocks: Option<u32>,
}

/// The registers of a thread, and where their number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// From a cubin.
    Exact(u32),
    /// From the live values of PTX.
    Estimated(u32),
    /// From the command line.
    Given(u32),
    Unknown,
}

impl Registers {
    /// 0 if unknown.
    pub fn count(self) -> u32 {
        match self {
            Registers::Exact(count) | Registers::Estimated(count) | Registers::Given(count) => {
                count
            }
            Registers::Unknown => 0,
        }
    }

    /// What ptxas makes of an estimate: it spills what does not fit the launch bounds.
    pub fn bounded(self, processor: &Multiprocessor, kernel: &KernelResources) -> Registers {
        let Registers::Estimated(count) = self else {
            return self;
        };
        let (threads, _) = kernel.threads.unwrap_or((1, ""));
        let most = processor.registers_for(threads, kernel.min_blocks.unwrap_or(1));
        Registers::Estimated(count.min(most.unwrap_or(MAX_REGISTERS)))
    }
}

impl KernelResources {
    /// A kernel that the command line describes.
    pub fn unnamed(target: Target) -> KernelResources {
        KernelResources {
            name: "kernel".to_owned(),
            place: String::new(),
            target,
            registers: Registers::Unknown,
            shared: 0,
            barriers: 0,
            threads: None,
            min_blocks: None,
        }
    }

    fn of_cubin(kernel: CubinKernel, place: &str, target: Target) -> KernelResources {
        let product = |[x, y, z]: [u32; 3]| x.saturating_mul(y).saturating_mul(z);
        let required = kernel
            .required_threads
            .map(|shape| (product(shape), ".reqntid"));
        let most = || kernel.max_threads.map(|shape| (product(shape), ".maxntid"));
        KernelResources {
            name: kernel.name,
            place: place.to_owned(),
            target,
            registers: Registers::Exact(kernel.registers),
            shared: kernel.shared - kernel.reserved_shared.min(kernel.shared),
            barriers: kernel.barriers,
            threads: required.or_else(most),
            min_blocks: None,
        }
    }
}

/// The kernels of a file: of the images that a device of `target` loads, or of all.
pub fn of_file(file: &Path, target: Option<Target>) -> Result<Vec<KernelResources>, Failure> {
    let bytes = FileBytes::open(file)?;
    let failure = |error: ImageError| Failure::new(format!("{}: {error}", file.shown()));
    let contents = image::contents(&bytes).map_err(failure)?.linked();
    let mut limit = UnpackLimit::of_file(bytes.len());
    let (mut kernels, mut images) = (Vec::new(), 0);
    let mut progress = Progress::new("reading");
    for (done, piece) in contents.pieces.iter().enumerate() {
        progress.show(done as u64, contents.pieces.len() as u64, "");
        for entry in chosen(piece, target) {
            images += 1;
            limit.take(&entry).map_err(failure)?;
            let place = match &piece.member {
                Some(member) => format!("{}({member})", file.shown()),
                None => file.shown().to_string(),
            };
            kernels.append(&mut of_entry(&entry, &place)?);
        }
    }
    match (kernels.is_empty(), images, target) {
        (false, ..) => Ok(kernels),
        (true, 0, Some(target)) => Err(Failure::new(format!(
            "{}: no image runs on {target}",
            file.shown()
        ))
        .help("`ptxkit inspect` lists the images")),
        (true, ..) => Err(Failure::new(format!("{}: it has no kernels", file.shown()))),
    }
}

/// The entries of a fatbin or single image that have code for the target.
fn chosen<'a>(piece: &Piece<'a>, target: Option<Target>) -> Vec<Entry<'a>> {
    let mut entries = piece.entries();
    if let Some(target) = target {
        let policy = Policy::from_environment(&Environment::read()).jit();
        let selected = image::select(std::slice::from_ref(&piece.image), target, policy);
        let index = selected.map(|selection| selection.place.entry.unwrap_or(0));
        entries = match index {
            Ok(index) if index < entries.len() => vec![entries.swap_remove(index)],
            _ => Vec::new(),
        };
    }
    entries.retain(|entry| entry.kind == image::EntryKind::Elf || entry.kind.is_ptx());
    entries
}

fn of_entry(entry: &Entry<'_>, place: &str) -> Result<Vec<KernelResources>, Failure> {
    let failure = |error: ImageError| Failure::new(format!("{place}: {error}"));
    if entry.kind.is_ptx() {
        let text = entry.ptx().map_err(failure)?;
        return of_ptx(&text, place, entry.target);
    }
    let bytes = entry.unpack().map_err(failure)?;
    match image::open(&bytes).map_err(failure)? {
        // Its header does not have the suffix.
        Image::Cubin(cubin) => of_cubin(&cubin, place, entry.target).map_err(failure),
        _ => Ok(Vec::new()),
    }
}

fn of_cubin(
    cubin: &image::Cubin<'_>,
    place: &str,
    target: Target,
) -> Result<Vec<KernelResources>, ImageError> {
    let kernels = cubin.contents()?.kernels.into_iter();
    Ok(kernels
        .map(|kernel| KernelResources::of_cubin(kernel, place, target))
        .collect())
}

/// The kernels of a blob of the compute cache.
pub fn of_blob(key: &str) -> Result<Vec<KernelResources>, Failure> {
    let cache = Cache::from_environment();
    let entry = cache::blob(&cache, key)?;
    let short = entry.key.short();
    let blob = cache
        .stored(&entry.key)
        .ok_or_else(|| Failure::new(format!("the blob {short} is damaged or gone")))?;
    let place = format!("blob {short}");
    let failure = |error: ImageError| Failure::new(format!("{place}: {error}"));
    let cubin = match image::open(&blob) {
        Ok(Image::Cubin(cubin)) => cubin,
        _ => {
            return Err(Failure::new(format!(
                "{place} is no cubin: it is for {}",
                entry.provenance.target
            ))
            .help("the CPU device has no registers: give the PTX, with --target"));
        }
    };
    of_cubin(&cubin, &place, cubin.target).map_err(failure)
}

fn of_ptx(text: &str, place: &str, target: Target) -> Result<Vec<KernelResources>, Failure> {
    let Reading {
        module,
        diagnostics,
    } = ptx::read(text);
    if !diagnostics.is_empty() {
        return Err(Failure::rendered(&Diagnostics::new(
            text,
            place,
            diagnostics,
        )));
    }
    let context = ModuleContext::new(&module, text, None, None);
    let functions: HashMap<&str, FunctionContext<'_, '_>> = context
        .functions()
        .map(|function| (function.function.name.text, function))
        .collect();
    let kernel = |signature: ptx::signature::KernelSignature| {
        let product = |[x, y, z]: [u32; 3]| x.saturating_mul(y).saturating_mul(z);
        let required = signature
            .required_threads
            .map(|shape| (product(shape), ".reqntid"));
        let most = signature
            .max_threads
            .map(|shape| (product(shape), ".maxntid"));
        let function = functions.get(signature.name.as_str());
        let bound = |name: &str| {
            let bounds = function?.function.directives.iter();
            let bound = bounds.rev().find(|bound| bound.name == name)?;
            bound.values.first().copied()
        };
        let reached = function.map(|function| reached(function, &functions));
        let reached = reached.unwrap_or_default();
        let live = reached.iter().map(|function| Pressure::of(function));
        // A call adds what the callee needs to what lives across it; the larger is an estimate.
        let live = live.map(|pressure| Some(pressure?.registers));
        let live = live.collect::<Option<Vec<u32>>>();
        let registers = live.and_then(|live| live.into_iter().max());
        let registers = match registers {
            Some(live) => {
                let most = bound("maxnreg").unwrap_or(MAX_REGISTERS).min(MAX_REGISTERS);
                Registers::Estimated(live.min(most))
            }
            None => Registers::Unknown,
        };
        let barriers = reached.iter().map(|function| barriers(function));
        KernelResources {
            place: format!("{place}:{}", signature.line),
            target,
            registers,
            shared: signature.static_shared.into(),
            barriers: barriers.max().unwrap_or(0),
            threads: required.or(most),
            min_blocks: bound("minnctapersm"),
            name: signature.name,
        }
    };
    Ok(signatures(&module, text).into_iter().map(kernel).collect())
}

/// A kernel, and the functions that it may call.
fn reached<'r, 'm, 'a>(
    kernel: &'r FunctionContext<'m, 'a>,
    functions: &'r HashMap<&str, FunctionContext<'m, 'a>>,
) -> Vec<&'r FunctionContext<'m, 'a>> {
    let mut reached = vec![kernel];
    let mut seen = HashSet::from([kernel.function.name.text]);
    let mut at = 0;
    while let Some(function) = reached.get(at).copied() {
        for name in names(function.body) {
            if seen.insert(name) {
                reached.extend(functions.get(name));
            }
        }
        at += 1;
    }
    reached
}

fn names<'b, 'a>(body: &'b Body<'a>) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
    let named = body.operands.iter().filter_map(|operand| operand.name());
    named.map(|name| name.text)
}

/// The barriers of a block that the instructions of a function name: all, if one is in a
/// register.
fn barriers(function: &FunctionContext<'_, '_>) -> u32 {
    let mut count = 0;
    for statement in &function.body.statements {
        let Statement::Instruction(instruction) = statement else {
            continue;
        };
        let modifiers = &function.mnemonic(instruction).modifiers;
        let is_barrier = matches!(instruction.opcode, Opcode::Bar | Opcode::Barrier);
        if !is_barrier || modifiers.has(Modifier::Warp) || modifiers.has(Modifier::Cluster) {
            continue;
        }
        // A reduction has its result first.
        let at = usize::from(modifiers.has(Modifier::Red));
        let number = match function.body.list(instruction.operands).get(at) {
            Some(Operand::Integer(number)) => u32::try_from(number.value).unwrap_or(MAX_BARRIERS),
            _ => MAX_BARRIERS - 1,
        };
        count = count.max(number.saturating_add(1).min(MAX_BARRIERS));
    }
    count
}
