//! `ptxkit cache warm --from`: compiles what a program loaded, as `ptxkit exec --save-compiles` wrote it.

use std::path::Path;
use std::time::Instant;

use input::ShowName as _;
use serde_json::{Value, json};

use crate::errors::of_driver;
use crate::progress::Progress;
use crate::report::in_ms;
use compiles::Module;
use ptxkit::jit::JitOptions;
use ptxkit::loader::{CacheUse, LoadError, Loader, Source};
use terminal::failure::Failure;

/// What was compiled for one target.
pub struct Compiled {
    pub text: String,
    pub json: Value,
    pub failed: bool,
}

/// Reads the list.
pub fn read(file: &Path) -> Result<Vec<Module>, Failure> {
    compiles::read(file).map_err(|error| {
        Failure::new(format!("{}: {error}", file.shown()))
            .help("`ptxkit exec --save-compiles FILE` and PTXKIT_SAVE_COMPILES write such files")
    })
}

/// Compiles the modules of a list; of those that the program used kernel by kernel, these kernels.
pub fn compile(
    loader: &Loader,
    target: JitOptions,
    modules: &[Module],
) -> Result<Compiled, Failure> {
    let device = loader.context().device();
    let name = match target.target {
        Some(target) => target.to_string(),
        None => device.target().map_err(|error| of_driver(&error))?,
    };
    let of: usize = modules.iter().map(slices).sum();
    let mut progress = Progress::new("warm");
    let (mut done, mut compiled, mut failures) = (0, 0, Vec::new());
    let started = Instant::now();
    for (number, module) in modules.iter().enumerate() {
        let result = one(loader, target, module, |step| {
            progress.show(
                (done + step) as u64,
                of as u64,
                &format!("module {}", number + 1),
            );
        });
        done += slices(module);
        match result {
            Ok(count) => compiled += count,
            Err(error) => failures.push((number + 1, error.to_string())),
        }
    }
    drop(progress);
    for (number, error) in &failures {
        Failure::new(format!("module {number}: {error}")).print();
    }
    let (modules, time) = (modules.len(), in_ms(started.elapsed()));
    Ok(Compiled {
        text: format!(
            "{name}  {modules} modules, {of} slices: {compiled} compiled in {time:.1} ms\n"
        ),
        json: json!({
            "target": name,
            "modules": modules,
            "slices": of,
            "compiled": compiled,
            "ms": time,
            "failed": failures.len(),
        }),
        failed: !failures.is_empty(),
    })
}

/// The number of its kernels and variables that are compiled apart; 1 for a module that is compiled whole.
fn slices(module: &Module) -> usize {
    module.used.as_ref().map_or(1, Vec::len)
}

/// Compiles a module. Returns how many slices the cache did not have.
fn one(
    loader: &Loader,
    target: JitOptions,
    module: &Module,
    mut progress: impl FnMut(usize) + Send,
) -> Result<usize, LoadError> {
    let options = JitOptions {
        target: target.target,
        ..module.options
    };
    let source = Source::new("ptx", module.ptx.as_bytes());
    let Some(used) = &module.used else {
        let before = loader.counters().compiles;
        loader.code(&source, &options)?;
        progress(1);
        return Ok((loader.counters().compiles - before) as usize);
    };
    let code = loader.code_sliced(&source, &options)?;
    if code.report().whole.is_some() {
        return Ok(usize::from(code.report().cache == CacheUse::Miss));
    }
    let slice = |name: &String| {
        code.slice_of(name)
            .or_else(|_| code.slice_of_variable(name))
    };
    let mut slices = used.iter().map(slice).collect::<Result<Vec<_>, _>>()?;
    slices.sort_unstable();
    slices.dedup();
    let mut done = 0;
    code.prepare(&slices, |_| {
        done += 1;
        progress(done);
    })
}
