//! Checks the user's kernel name and arguments against the signatures from the front end, before a
//! driver is involved.

use super::sample::{Arg, ArgKind, Sample};
use input::ShowName as _;
use ptxkit::ptx::diagnostic::{Severity, nearest};
use ptxkit::ptx::names::Type;
use ptxkit::ptx::signature::{KernelSignature, ParamSignature, signatures};
use ptxkit::ptx::{self, Diagnostics};
use terminal::failure::{Failure, listing};

/// The result of the front end for a PTX text.
pub struct Analysis {
    pub kernels: Vec<KernelSignature>,
    /// The errors; `None` if there are none.
    pub errors: Option<Diagnostics>,
}

impl Analysis {
    pub fn read(source: &str, path: &str) -> Analysis {
        let reading = ptx::read(source);
        let kernels = signatures(&reading.module, source);
        let mut found = reading.diagnostics;
        found.extend(ptx::check(&reading.module, source));
        found.retain(|diagnostic| diagnostic.severity == Severity::Error);
        let errors = (!found.is_empty()).then(|| Diagnostics::new(source, path, found));
        Analysis { kernels, errors }
    }

    /// Checks the kernel and its arguments. If the text has errors, a missing kernel is not an error
    /// here: the driver decides.
    pub fn check(&self, sample: &Sample) -> Result<(), Failure> {
        let name = &sample.kernel;
        match self.kernels.iter().find(|kernel| kernel.name == *name) {
            Some(kernel) => check_arguments(kernel, sample),
            None if self.errors.is_some() => Ok(()),
            None => Err(unknown_kernel(
                name,
                &sample.ptx.shown().to_string(),
                self.kernels.iter().map(|kernel| kernel.name.as_str()),
            )),
        }
    }
}

/// The message for an unknown kernel.
pub fn unknown_kernel<'a>(
    name: &str,
    place: &str,
    kernels: impl Iterator<Item = &'a str> + Clone,
) -> Failure {
    let failure = Failure::new(format!("there is no kernel `{name}` in {place}"));
    let all = format!("the kernels there are {}", listing(kernels.clone()));
    match (nearest(name, kernels.clone()), kernels.count()) {
        (_, 0) => failure.help("it has no kernels: a kernel starts with .entry"),
        (Some(near), 1) => failure.help(format!("did you mean `{near}`?")),
        (Some(near), _) => failure.help(format!("did you mean `{near}`? {all}")),
        (None, 1) => failure.help(all.replace("kernels there are", "kernel there is")),
        (None, _) => failure.help(all),
    }
}

fn check_arguments(kernel: &KernelSignature, sample: &Sample) -> Result<(), Failure> {
    let declared = || {
        let params: Vec<String> = kernel.params.iter().map(describe).collect();
        format!("it is declared as {}({})", kernel.name, params.join(", "))
    };
    if kernel.params.len() != sample.args.len() {
        return Err(Failure::new(format!(
            "kernel `{}` takes {}, found {}",
            kernel.name,
            count(kernel.params.len()),
            sample.args.len()
        ))
        .help(declared()));
    }
    for (index, (param, arg)) in kernel.params.iter().zip(&sample.args).enumerate() {
        if !fits(param, arg) {
            return Err(Failure::new(format!(
                "argument {} of kernel `{}`: expected {}, found {}",
                index + 1,
                kernel.name,
                describe(param),
                describe_argument(arg)
            ))
            .help(declared()));
        }
    }
    Ok(())
}

fn count(arguments: usize) -> String {
    match arguments {
        0 => "no arguments".to_owned(),
        1 => "1 argument".to_owned(),
        _ => format!("{arguments} arguments"),
    }
}

/// A parameter in PTX syntax: `.u32 n`, `.align 16 .b8 p[32]`.
fn describe(param: &ParamSignature) -> String {
    let ParamSignature {
        name, ty, vector, ..
    } = param;
    let ty = ty.text();
    match (param.dims, vector) {
        (Some(bytes), _) => format!(".align {} .b8 {name}[{bytes}]", param.align),
        (None, 0 | 1) => format!(".{ty} {name}"),
        (None, _) => format!(".v{vector} .{ty} {name}"),
    }
}

fn describe_argument(arg: &Arg) -> String {
    match &arg.kind {
        ArgKind::Scalar { element, bytes } => match bytes.len() / element.size() {
            0 | 1 => format!("a scalar {element}"),
            count => format!("{count} values of {element}"),
        },
        ArgKind::Struct { bytes, .. } => format!("a struct of {} bytes", bytes.len()),
        ArgKind::Buffer(buffer) if buffer.tensor.is_some() => {
            format!("a tensor map of {} (128 bytes)", buffer.element)
        }
        ArgKind::Buffer(buffer) => {
            format!("a buffer of {} (an address, 8 bytes)", buffer.element)
        }
        ArgKind::PitchOf { element, .. } => format!("a pitch as {element}"),
    }
}

fn fits(param: &ParamSignature, arg: &Arg) -> bool {
    let (size, float) = match &arg.kind {
        ArgKind::Scalar { element, bytes } => (bytes.len(), Some(element.is_float())),
        ArgKind::Struct { bytes, .. } => (bytes.len(), None),
        ArgKind::Buffer(buffer) if buffer.tensor.is_some() => (128, None),
        ArgKind::Buffer(_) => (8, Some(false)),
        ArgKind::PitchOf { element, .. } => (element.size(), Some(false)),
    };
    // Untyped parameters and arrays of bytes accept any argument of their size.
    let kind_fits = match (float_param(param), float) {
        (Some(parameter), Some(argument)) => parameter == argument,
        _ => true,
    };
    param.size as usize == size && kind_fits
}

/// Whether a parameter is a floating-point number; `None` if untyped.
fn float_param(param: &ParamSignature) -> Option<bool> {
    if param.dims.is_some() {
        return None;
    }
    match param.ty {
        Type::F32 | Type::F64 | Type::F16 | Type::Bf16 => Some(true),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => Some(false),
        Type::S8 | Type::S16 | Type::S32 | Type::S64 => Some(false),
        _ => None,
    }
}
