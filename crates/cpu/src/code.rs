//! The code of a module, which all contexts share: compiled before, or each kernel when it
//! is first asked for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::blob::{BlobError, Image, KernelImage, VariableImage};
use super::code_store::{CodeStore, Variant};
use super::codegen::Vectorization;
use super::compile::CompileError;
use super::executable::{ExecutableCode, ExecutableKernel, MapError};
use super::merge;
use super::observe::{self, Compile, Event, Span};
use super::source::Source;
use super::tier_up::TierUp;
use ptx::line_table::LineTable;

/// Why there is no code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CodeError {
    /// The bytes are not a blob, damaged, or for another processor.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The system did not map executable memory.
    #[error(transparent)]
    Executable(#[from] MapError),
    /// The CPU device does not support what the kernel does.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

/// The kernels and the variables of a module.
pub(crate) struct ModuleCode {
    /// Unique in the process, for the observer.
    number: u64,
    kernels: Vec<Kernel>,
    by_name: HashMap<String, usize>,
    variables: Vec<VariableImage>,
    /// Of a compiled module; otherwise made when a message needs it.
    line_table: OnceLock<LineTable>,
    /// The text of a compiled module until a hot kernel has it read; empty without tier-up, and
    /// where the store has it.
    text: Mutex<String>,
    /// What kernels are compiled from. `None` if there is no text.
    source: OnceLock<Option<Source>>,
    /// Where the code of hot kernels is kept.
    store: OnceLock<Box<dyn CodeStore>>,
    vectorization: Vectorization,
}

struct Kernel {
    name: String,
    code: OnceLock<Result<ExecutableKernel, CodeError>>,
    /// Its optimized code by the size of blocks: the first sizes with which it is launched.
    sizes: [OnceLock<([u32; 3], TierUp)>; SIZES],
    /// Its optimized code for other sizes.
    any_size: TierUp,
}

/// The sizes of blocks for which a kernel has code of its own.
const SIZES: usize = 4;

impl Kernel {
    fn new(name: &str) -> Kernel {
        Kernel {
            name: name.to_owned(),
            code: OnceLock::new(),
            sizes: [const { OnceLock::new() }; SIZES],
            any_size: TierUp::default(),
        }
    }

    /// The tier-up of the code that blocks of a size run, and the size that it is for.
    fn tier_up(&self, block: [u32; 3]) -> (&TierUp, Option<[u32; 3]>) {
        let sizes = self.sizes.iter();
        let mut sizes = sizes.map(|slot| slot.get_or_init(|| (block, TierUp::default())));
        match sizes.find(|(size, _)| *size == block) {
            Some((_, tier_up)) => (tier_up, Some(block)),
            None => (&self.any_size, None),
        }
    }
}

impl ModuleCode {
    /// The code of an image that has been read or just compiled.
    pub(crate) fn compiled(image: Image) -> Result<ModuleCode, CodeError> {
        image.check_processor()?;
        let kernels = image.kernels.iter().map(|kernel| Kernel::new(&kernel.name));
        let kernels: Vec<Kernel> = kernels.collect();
        let code = Arc::new(ExecutableCode::new(&image.code, image.kernels)?);
        for (kernel, code) in kernels.iter().zip(ExecutableKernel::all(&code)) {
            let _ = kernel.code.set(Ok(code)); // it is empty
        }
        let vectorization = if image.tier_up {
            Vectorization::WhenHot
        } else {
            Vectorization::Never
        };
        Ok(ModuleCode {
            number: next_number(),
            by_name: by_name(&kernels),
            kernels,
            variables: image.variables,
            line_table: OnceLock::from(image.line_table),
            text: Mutex::new(image.ptx),
            source: OnceLock::new(),
            store: OnceLock::new(),
            vectorization,
        })
    }

    /// The code of a module whose kernels are compiled when they are first asked for.
    pub(crate) fn lazy(source: Source, vectorization: Vectorization) -> ModuleCode {
        let kernels = source.kernels();
        let kernels: Vec<Kernel> = kernels
            .map(|(function, _)| Kernel::new(function.name.text))
            .collect();
        ModuleCode {
            number: next_number(),
            by_name: by_name(&kernels),
            kernels,
            variables: source.variables().to_vec(),
            line_table: OnceLock::new(),
            text: Mutex::default(),
            source: OnceLock::from(Some(source)),
            store: OnceLock::new(),
            vectorization,
        }
    }

    /// Has the optimized code of kernels that are or become hot kept in what `store` returns;
    /// asks for none where kernels are not compiled again. The first call counts.
    pub(crate) fn set_store(&self, store: impl FnOnce() -> Box<dyn CodeStore>) {
        if self.vectorization == Vectorization::WhenHot {
            self.store.get_or_init(store);
        }
    }

    /// The number of the code in this process, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The names of the kernels, in the order of the PTX.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|kernel| kernel.name.as_str())
    }

    /// The index of the kernel with this name.
    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn variables(&self) -> &[VariableImage] {
        &self.variables
    }

    /// The source of a module whose kernels are compiled when they are first asked for.
    pub(crate) fn lazy_source(&self) -> Option<&Source> {
        self.source.get()?.as_ref()
    }

    /// Bytes of the variables in `.const`.
    pub(crate) fn constant_bytes(&self) -> u64 {
        let constant = self.variables.iter().filter(|variable| variable.constant);
        constant.map(|variable| variable.size).sum()
    }

    /// Where the lines of the PTX come from.
    pub(crate) fn line_table(&self) -> &LineTable {
        self.line_table.get_or_init(|| match self.source() {
            Some(source) => source.line_table(),
            None => LineTable::default(),
        })
    }

    /// A kernel, which the first call compiles. Others that ask for the same one wait for it.
    /// `None` if there are fewer kernels.
    pub(crate) fn kernel(&self, index: usize) -> Option<Result<&ExecutableKernel, &CodeError>> {
        let kernel = self.kernels.get(index)?;
        let code = kernel.code.get_or_init(|| {
            let (start, watch) = (Instant::now(), observe::start());
            let variant = Variant {
                kernel: index,
                block: None,
            };
            let compiled = self.compile(variant, self.vectorization);
            tracing::debug!(
                kernel = kernel.name,
                ms = start.elapsed().as_secs_f64() * 1e3,
                "compiled"
            );
            watch.end(|span| self.compilation(&kernel.name, false, span));
            compiled
        });
        Some(code.as_ref())
    }

    /// Whether a kernel is compiled.
    pub(crate) fn is_compiled(&self, index: usize) -> bool {
        let kernel = self.kernels.get(index);
        kernel.is_some_and(|kernel| matches!(kernel.code.get(), Some(Ok(_))))
    }

    fn compile(
        &self,
        variant: Variant,
        vectorization: Vectorization,
    ) -> Result<ExecutableKernel, CodeError> {
        first_kernel(self.compile_image(variant, vectorization)?)
    }

    /// An image of one kernel.
    fn compile_image(
        &self,
        Variant { kernel, block }: Variant,
        vectorization: Vectorization,
    ) -> Result<Image, CodeError> {
        match self.source() {
            Some(source) => Ok(source.compile_kernel(kernel, vectorization, block)?),
            None => Ok(Image::default()),
        }
    }

    fn source(&self) -> Option<&Source> {
        let read = || {
            let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
            let mut text = std::mem::take(&mut *text);
            if text.is_empty() {
                text = self.store.get()?.text()?;
            }
            let linked = merge::with_device_runtime(&text).ok()?;
            Source::read(linked.unwrap_or(text)).ok()
        };
        self.source.get_or_init(read).as_ref()
    }

    /// The optimized code of a kernel for blocks of a size if it is ready, otherwise its first
    /// code.
    pub(crate) fn fastest(&self, index: usize, block: [u32; 3]) -> Option<&ExecutableKernel> {
        if self.vectorization != Vectorization::WhenHot {
            return self.kernel(index)?.ok();
        }
        let (tier_up, block) = self.kernels.get(index)?.tier_up(block);
        if let Some(store) = self.store.get() {
            let variant = Variant {
                kernel: index,
                block,
            };
            tier_up.search(|| self.find(&**store, variant));
        }
        match tier_up.optimized() {
            Some(optimized) => Some(optimized),
            None => self.kernel(index)?.ok(),
        }
    }

    /// The optimized code of a kernel for blocks of a size, if it is ready.
    pub(crate) fn optimized(&self, index: usize, block: [u32; 3]) -> Option<&ExecutableKernel> {
        self.kernels.get(index)?.tier_up(block).0.optimized()
    }

    /// Whether a kernel has no optimized code for blocks of a size, but may get some.
    pub(crate) fn may_improve(&self, index: usize, block: [u32; 3]) -> bool {
        self.vectorization == Vectorization::WhenHot
            && self
                .kernels
                .get(index)
                .is_some_and(|kernel| !kernel.tier_up(block).0.is_finished())
    }

    /// The optimized code that an earlier process stored.
    fn find(&self, store: &dyn CodeStore, variant: Variant) -> Option<ExecutableKernel> {
        let found = self.read_optimized(variant, &store.find(variant)?);
        if let Err(CodeError::Blob(why)) = &found {
            store.discard(variant, &why.to_string());
        }
        found.ok()
    }

    /// The optimized code of a kernel that a store returned.
    fn read_optimized(
        &self,
        variant: Variant,
        bytes: &[u8],
    ) -> Result<ExecutableKernel, CodeError> {
        // SAFETY: whoever set the store answers for what it returns.
        let image = unsafe { Image::read(bytes) }?;
        image.check_processor()?;
        let optimized = first_kernel(image)?;
        let first = self.kernel(variant.kernel).and_then(Result::ok);
        let of_size = |first: &KernelImage| first.required_threads.or(variant.block);
        let fits = |first: &KernelImage, code: &KernelImage| {
            is_same(first, code) && code.block == of_size(first)
        };
        if first.is_some_and(|first| fits(first.image(), optimized.image())) {
            Ok(optimized)
        } else {
            let what = "it is the code of another kernel";
            Err(BlobError::Damaged { what }.into())
        }
    }

    /// Whether the optimized code of a hot kernel is ready.
    #[cfg(test)]
    pub(crate) fn is_hot(&self, index: usize, block: [u32; 3]) -> bool {
        self.optimized(index, block).is_some()
    }

    /// Records that blocks of a size ran a kernel for `time`. If it is hot now, it is compiled again
    /// for that size in the background.
    pub(crate) fn record_run(
        self: &Arc<ModuleCode>,
        index: usize,
        block: [u32; 3],
        time: Duration,
    ) {
        if self.vectorization != Vectorization::WhenHot {
            return;
        }
        let Some(kernel) = self.kernels.get(index) else {
            return;
        };
        if !kernel.tier_up(block).0.becomes_hot(time) {
            return;
        }
        let code = Arc::clone(self);
        // If no thread can be created, the kernel keeps its first code.
        let _ = std::thread::Builder::new()
            .name("ptxkit compiler".into())
            .spawn(move || code.optimize(index, block));
    }

    fn optimize(&self, index: usize, block: [u32; 3]) {
        let (start, watch) = (Instant::now(), observe::start());
        let Some(kernel) = self.kernels.get(index) else {
            return;
        };
        let (tier_up, block) = kernel.tier_up(block);
        let variant = Variant {
            kernel: index,
            block,
        };
        let optimized = match self.store.get() {
            Some(store) => self.find_or_compile(&**store, variant, &kernel.name),
            None => self.compile(variant, Vectorization::Always).ok(),
        };
        tracing::debug!(
            kernel = kernel.name,
            block = ?block,
            ms = start.elapsed().as_secs_f64() * 1e3,
            optimized = optimized.is_some(),
            "a hot kernel has optimized code"
        );
        watch.end(|span| self.compilation(&kernel.name, true, span));
        tier_up.finish(optimized);
    }

    /// A compilation of one kernel, for the observer.
    fn compilation<'a>(&self, kernel: &'a str, is_optimized: bool, span: Span) -> Event<'a> {
        Event::Compile(Compile {
            module: self.number,
            kernel: Some(kernel),
            is_optimized,
            span,
        })
    }

    /// The optimized code of a kernel, which is compiled if the store does not have it.
    fn find_or_compile(
        &self,
        store: &dyn CodeStore,
        variant: Variant,
        name: &str,
    ) -> Option<ExecutableKernel> {
        let mut compile = || {
            let image = self.compile_image(variant, Vectorization::Always).ok()?;
            (!image.kernels.is_empty()).then(|| image.write())
        };
        let mut read = || {
            let code = store.find_or_compile(variant, name, &mut compile)?;
            Some(self.read_optimized(variant, &code))
        };
        let mut optimized = read()?;
        if let Err(CodeError::Blob(why)) = &optimized {
            store.discard(variant, &why.to_string());
            optimized = read()?;
        }
        optimized.ok()
    }
}

/// The number of the next module's code.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The only kernel of an image that has been read or just compiled.
fn first_kernel(image: Image) -> Result<ExecutableKernel, CodeError> {
    let code = Arc::new(ExecutableCode::new(&image.code, image.kernels)?);
    let kernel = ExecutableKernel::all(&code).next();
    kernel.ok_or_else(|| {
        let what = "it has no text";
        BlobError::Damaged { what }.into()
    })
}

/// Whether two kernels are the first and the optimized code of one.
fn is_same(one: &KernelImage, other: &KernelImage) -> bool {
    let outside = |kernel: &KernelImage| (kernel.line, kernel.shared_bytes, kernel.param_bytes);
    one.name == other.name && one.params == other.params && outside(one) == outside(other)
}

/// Of kernels with one name the last counts.
fn by_name(kernels: &[Kernel]) -> HashMap<String, usize> {
    let names = kernels.iter().enumerate();
    names
        .map(|(index, kernel)| (kernel.name.clone(), index))
        .collect()
}
