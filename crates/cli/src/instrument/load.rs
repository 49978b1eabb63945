//! Loads PTX as text, rewritten or not, and launches it.

use std::borrow::Cow;

use crate::errors::of_driver;
use crate::launch::{self, Launched, Passed, Placed};
use crate::matching::Analysis;
use crate::progress::Waiting;
use crate::run::Request;
use crate::sample::Sample;
use ptxkit::cache::{Cache, Policy, Slicing};
use ptxkit::driver::{self, Context, DriverKind, Kernel, Selection};
use ptxkit::image::{self, Image};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{LoadError, Loader, SlicedModule, Source};
use terminal::failure::Failure;

/// The PTX of a request.
///
/// # Errors
/// It is a binary, it has errors, or the arguments do not fit its kernel.
pub fn text_of(request: &Request) -> Result<Cow<'_, str>, Failure> {
    let name = request.name();
    let Ok(Image::Ptx(ptx)) = image::open(&request.bytes) else {
        return Err(Failure::new(format!("{name} is no PTX"))
            .help("`ptxkit extract` writes the PTX in a binary to a file"));
    };
    let analysis = Analysis::read(&ptx.source, &name);
    if let Some(errors) = &analysis.errors {
        return Err(Failure::rendered(errors));
    }
    analysis.check(&request.sample)?;
    Ok(ptx.source)
}

/// The message for PTX that cannot be rewritten.
pub fn narrow(name: &str) -> Failure {
    Failure::new(format!(
        "{name} has addresses of 32 bits: it cannot be made to record"
    ))
}

/// A loaded kernel.
pub struct Loaded {
    module: SlicedModule,
    kernel: Kernel,
    /// What the device is called.
    pub device: String,
    pub kind: DriverKind,
}

impl Loaded {
    /// Loads PTX. It is not cached, as nobody wants it again, nor cut, as all of its kernels
    /// share the variables.
    pub fn new(
        name: &str,
        kernel: &str,
        text: &str,
        selection: Selection,
    ) -> Result<Loaded, Failure> {
        let selected = driver::select(selection).map_err(|error| of_driver(&error))?;
        let context = Context::primary(&selected.device).map_err(|error| of_driver(&error))?;
        let policy = Policy::disabled().with_slicing(Slicing::Never);
        let loader = Loader::new(context, Cache::new(policy));
        let source = Source::new(name, text.as_bytes());
        let _waiting = Waiting::new(&format!("compiling {kernel}"));
        let module = loader.load_sliced(&source, &JitOptions::default());
        let module = module.map_err(of_load)?;
        let kernel = module.kernel(kernel).map_err(of_load)?;
        Ok(Loaded {
            module,
            kernel,
            device: selected.device.name().map_err(|error| of_driver(&error))?,
            kind: selected.device.driver().kind(),
        })
    }

    pub fn context(&self) -> &Context {
        self.kernel.context()
    }

    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Passes the arguments of a sample.
    pub fn pass(&self, sample: &Sample) -> Result<Passed, Failure> {
        Passed::new(sample, &self.module, &self.kernel).map_err(of_load)
    }

    /// Sets a variable of the module.
    pub fn set(&self, variable: &str, value: u64) -> Result<(), Failure> {
        let variable = self.module.global(variable).map_err(of_load)?;
        variable.write(&[value]).map_err(|error| of_driver(&error))
    }

    /// Launches it, after `prepare` has seen where the arguments lie.
    pub fn launch(
        &self,
        sample: &Sample,
        prepare: impl FnOnce(&[Option<Placed>]) -> Result<(), Failure>,
    ) -> Result<Launched, Failure> {
        let _waiting = Waiting::new(&format!("running {}", sample.kernel));
        let mut prepared = Ok(());
        let launched = launch::launch_prepared(sample, &self.module, &self.kernel, |placed| {
            prepared = prepare(placed);
            prepared.is_ok()
        });
        prepared?;
        launched.map_err(of_load)
    }
}

fn of_load(error: LoadError) -> Failure {
    match error {
        LoadError::Driver(error) => of_driver(&error),
        error => Failure::new(error),
    }
}
