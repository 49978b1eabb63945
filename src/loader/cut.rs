//! A module that is cut: its slices, each of which the first use of one of its kernels
//! compiles and loads.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::compile::{Compiled, Compiler, Request, is_of_ptx};
use super::constant::ConstantWrites;
use super::cores::cores;
use super::error::explain;
use super::hot::{self, Text};
use super::index::Index;
use super::modules::{WeakLoaded, lock};
use super::plan::CutRules;
use super::start::CompilerStart;
use super::{CacheUse, LoadError, Loaded, Loader};
use crate::cache::{Batch, Digest, Key};
use crate::driver::{self, Context};
use ptx::slice::Slices;

pub(super) struct Cut {
    pub loader: Loader,
    whole: Arc<WholeModule>,
    pub index: Index,
    slots: Vec<Slot>,
    pub written: Mutex<ConstantWrites>,
    #[allow(dead_code, reason = "held, not read")]
    start: CompilerStart,
}

/// A module and its slices, to which faults of its kernels refer, too.
struct WholeModule {
    request: Request<'static>,
    rules: CutRules,
    /// Made by the first slice that must be compiled where the index was in the cache.
    slices: OnceLock<Slices>,
}

/// The place of one slice.
#[derive(Default)]
struct Slot {
    loaded: OnceLock<Loaded>,
    /// Held by the thread that compiles or loads the slice.
    state: Mutex<State>,
}

/// What is known of a slice that is not loaded.
#[derive(Default)]
struct State {
    code: Option<Compiled>,
    /// Why it does not compile.
    failure: Option<driver::Error>,
}

impl State {
    fn remember(&mut self, error: LoadError) -> LoadError {
        if let LoadError::Driver(error) = &error
            && is_of_ptx(error)
        {
            self.failure = Some(error.clone());
        }
        error
    }
}

/// How slices are compiled. The default is for one that is needed now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CompileSettings<'a> {
    /// The threads for one compile, unless the options say otherwise.
    pub threads: Option<u32>,
    /// Where several are compiled at once: they are stored together.
    pub batch: Option<&'a Batch>,
    /// The context in which the compiler runs; `None` for the loader's.
    pub context: Option<&'a Context>,
}

/// A module that may be unloaded meanwhile.
#[derive(Debug)]
pub(super) struct WeakCut(pub Weak<Cut>);

impl WeakLoaded for WeakCut {
    fn is_loaded(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl fmt::Debug for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cut")
            .field("key", &self.whole.request.key)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl Cut {
    pub(super) fn new(
        loader: &Loader,
        request: Request<'static>,
        rules: CutRules,
        index: Index,
        slices: Option<Slices>,
        start: CompilerStart,
    ) -> Cut {
        Cut {
            loader: loader.clone(),
            whole: Arc::new(WholeModule {
                request,
                rules,
                slices: slices.map(OnceLock::from).unwrap_or_default(),
            }),
            slots: index.slices.iter().map(|_| Slot::default()).collect(),
            index,
            written: Mutex::default(),
            start,
        }
    }

    /// The slice of a kernel.
    pub(super) fn slice_of(&self, kernel: &str) -> Result<usize, driver::Error> {
        let unknown = || driver::Error::UnknownKernel {
            name: kernel.to_owned(),
            known: self.index.kernel_names(),
        };
        self.index.kernel(kernel).ok_or_else(unknown)
    }

    /// A slice that is loaded.
    pub(super) fn loaded(&self, slice: usize) -> Option<&Loaded> {
        self.slots.get(slice)?.loaded.get()
    }

    /// A slice, loaded by the first thread that asks for it. Others wait, unless they
    /// ask for another slice.
    pub(super) fn load(
        &self,
        slice: usize,
        settings: CompileSettings<'_>,
    ) -> Result<&Loaded, LoadError> {
        let slot = &self.slots[slice];
        if let Some(loaded) = slot.loaded.get() {
            return Ok(loaded);
        }
        let mut state = lock(&slot.state);
        if let Some(loaded) = slot.loaded.get() {
            return Ok(loaded);
        }
        let code = self.take_code(slice, &mut state, settings)?;
        let (key, image) = (self.index.slices[slice], &self.whole.request.reason);
        let again = || self.code(slice, settings);
        let loaded = self.loader.load_compiled(key, image, code, again);
        let loaded = loaded.map_err(|error| state.remember(error))?;
        let compiler = Arc::clone(self.loader.compiler()?);
        let text = || self.hot_text(slice, key, compiler);
        let (request, bytes) = (&self.whole.request, self.source_bytes());
        self.loader.keep_hot_code(&loaded, request, bytes, text)?;
        let whole = Arc::clone(&self.whole);
        let original = move |line| whole.original_line(slice, line);
        loaded.module.set_original_lines(original);
        // Held until the slice counts as loaded, so that no write is lost between the two.
        let written = lock(&self.written);
        written.copy_to(&self.index, slice, &loaded.module)?;
        Ok(slot.loaded.get_or_init(|| loaded))
    }

    /// Whether a slice is loaded, or in a folder of the cache.
    pub(super) fn is_cached(&self, slice: usize) -> bool {
        let key = || &self.index.slices[slice];
        self.loaded(slice).is_some() || self.loader.cache().contains(key())
    }

    /// Gets the code of a slice, for whoever loads it next.
    pub(super) fn fetch(
        &self,
        slice: usize,
        settings: CompileSettings<'_>,
    ) -> Result<(), LoadError> {
        let slot = &self.slots[slice];
        let mut state = lock(&slot.state);
        if slot.loaded.get().is_none() {
            state.code = Some(self.take_code(slice, &mut state, settings)?);
        }
        Ok(())
    }

    fn take_code(
        &self,
        slice: usize,
        state: &mut State,
        settings: CompileSettings<'_>,
    ) -> Result<Compiled, LoadError> {
        if let Some(error) = &state.failure {
            return Err(error.clone().into());
        }
        match state.code.take() {
            Some(code) => Ok(code),
            None => {
                let code = self.code(slice, settings);
                code.map_err(|error| state.remember(error))
            }
        }
    }

    /// The bytes of a slice's text, about.
    fn source_bytes(&self) -> usize {
        self.whole.text().len() / self.index.slices.len()
    }

    /// The PTX of a slice, for its hot kernels. An index of another build of this program may
    /// cut otherwise: then there is none.
    fn hot_text(&self, slice: usize, key: Key, compiler: Arc<Compiler>) -> Text {
        let whole = Arc::clone(&self.whole);
        Box::new(move || {
            let text = whole.text_of(slice);
            let WholeModule { request, .. } = &*whole;
            let digest = Digest::of(text.as_bytes());
            let own = compiler.key(digest, &request.target, &request.options);
            (own == key).then(|| text.into_owned())
        })
    }

    /// The code of a slice for another library.
    pub(super) fn code_for_others(
        &self,
        slice: usize,
        settings: CompileSettings<'_>,
    ) -> Result<(Vec<u8>, CacheUse), LoadError> {
        let code = self.code(slice, settings)?;
        let compiler = self.loader.compiler()?;
        let text = self.hot_text(slice, self.index.slices[slice], Arc::clone(compiler));
        let bytes = hot::for_others(compiler, &code, || text().unwrap_or_default());
        Ok((bytes, code.cache))
    }

    /// Quarantines the cache's code of a slice.
    pub(super) fn discard(&self, slice: usize, why: &str) {
        if let Some(key) = self.index.slices.get(slice) {
            self.loader.cache().discard(key, why);
        }
    }

    /// The code of a slice, from the cache or compiled.
    pub(super) fn code(
        &self,
        slice: usize,
        settings: CompileSettings<'_>,
    ) -> Result<Compiled, LoadError> {
        let key = self.index.slices[slice];
        // Its text is not cut out before it is needed.
        let whole = &*self.whole;
        let source_bytes = self.source_bytes();
        let code = self.loader.cached_or(&key, source_bytes, |lock, lookup| {
            let text = whole.text_of(slice);
            let digest = Digest::of(text.as_bytes());
            let request = &whole.request;
            let made = self.loader.key(digest, &request.target, &request.options)?;
            let request = request.of_slice(&text, made, settings.threads);
            // An index of another build of this program may cut otherwise.
            let lock = lock.filter(|_| made == key);
            let compiled = self.loader.compile(&request, lock, settings, lookup);
            compiled.map_err(|error| explain(self.loader.context(), &request, error))
        });
        // What is remembered of a failure has the lines of the slice, which other modules
        // may have too.
        code.map_err(|error| match error {
            LoadError::Driver(driver::Error::Jit(error)) => {
                let original = |line| whole.original_line(slice, line);
                driver::Error::Jit(error.with_lines(original)).into()
            }
            error => error,
        })
    }
}

impl WholeModule {
    fn text(&self) -> &str {
        self.request.ptx.text()
    }

    fn slices(&self) -> &Slices {
        self.slices.get_or_init(|| {
            let module = ptx::read_parallel(self.text(), cores()).module;
            self.rules.cut(self.text(), &module)
        })
    }

    fn text_of(&self, slice: usize) -> Cow<'_, str> {
        match self.slices().slices().get(slice) {
            Some(slice) => slice.text(self.text()),
            None => self.text().into(),
        }
    }

    /// The line from which a line of a slice comes; `None` for one that was added.
    fn original_line(&self, slice: usize, line: u32) -> Option<u32> {
        match self.slices().slices().get(slice) {
            Some(slice) => slice.original_line(self.text(), line),
            None => Some(line),
        }
    }
}
