//! Why a module is not cut.

use std::fmt;

/// Why a module is its own only slice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Whole {
    /// It has fewer kernels than it pays to cut.
    FewKernels(usize),
    /// Its text is shorter than it pays to cut.
    Small,
    /// One slice would have more than half of the text: its kernels share variables or
    /// function pointers, or one kernel is that long.
    OneSlice,
    /// The kernels reach so many functions and variables in common that finding them
    /// takes too long.
    Entangled,
    /// It has errors of syntax.
    Broken,
    /// It has a `.texref`, `.surfref` or `.samplerref`, which the host binds by name.
    References(String),
    /// It was built for a debugger, whose data describe the whole.
    Debug,
    /// It uses what another module defines: the function or variable of this name.
    Unresolved(String),
    /// A kernel, the one of this name, is launched or pointed to by device code.
    DeviceLaunch(String),
    /// It declares registers outside of functions, as PTX 1.x may.
    ModuleRegisters,
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whole::FewKernels(count) => write!(f, "it has only {count} kernels"),
            Whole::Small => f.write_str("it is short"),
            Whole::OneSlice => f.write_str("one slice would have most of the text"),
            Whole::Entangled => f.write_str("its kernels have too much in common"),
            Whole::Broken => f.write_str("it has errors of syntax"),
            Whole::References(name) => {
                write!(
                    f,
                    "`{name}` is bound by name: a texture, surface or sampler reference"
                )
            }
            Whole::Debug => f.write_str("it has the data of a debug build"),
            Whole::Unresolved(name) => write!(f, "`{name}` is defined in another module"),
            Whole::DeviceLaunch(name) => {
                write!(f, "device code takes the address of the kernel `{name}`")
            }
            Whole::ModuleRegisters => f.write_str("it declares registers outside of functions"),
        }
    }
}
