//! Loaded modules: executable code, and variables in device memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::blob::{BlobError, Image, KernelImage, Reference, VariableImage};
use super::executable::{ExecutableCode, MapError};
use super::memory::{DeviceMemory, MemoryError, Purpose};
use super::tier_up::TierUp;

/// Why a blob could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The bytes are not a blob, damaged, or for another processor.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// There is no device memory for a variable.
    #[error("variable {name}: {source}")]
    Memory {
        /// The variable.
        name: String,
        /// The error of the allocation.
        source: MemoryError,
    },
    /// The system did not map executable memory.
    #[error(transparent)]
    Executable(#[from] MapError),
    /// An `.extern` variable is not defined.
    #[error("variable {name} is .extern: link the module that defines it")]
    Undefined {
        /// The variable.
        name: String,
    },
}

/// A module whose kernels can be launched. Dropping it frees its variables.
pub struct LoadedModule {
    code: ExecutableCode,
    tier_up: Arc<TierUp>,
    variables: Vec<VariableImage>,
    addresses: Vec<u64>,
    kernel_index: HashMap<String, usize>,
    memory: Arc<DeviceMemory>,
}

impl LoadedModule {
    /// Maps the code of an image, and allocates and initializes its variables.
    #[cfg(test)]
    pub fn new(image: Image, memory: &Arc<DeviceMemory>) -> Result<LoadedModule, LoadError> {
        LoadedModule::with_symbols(image, memory, |_| None)
    }

    /// Maps the code of an image, and allocates and initializes its variables. `defined`
    /// returns the addresses of `.extern` variables.
    pub fn with_symbols(
        image: Image,
        memory: &Arc<DeviceMemory>,
        defined: impl Fn(&str) -> Option<u64>,
    ) -> Result<LoadedModule, LoadError> {
        image.check_processor()?;
        let undefined = |v: &&VariableImage| v.external && defined(&v.name).is_none();
        if let Some(variable) = image.variables.iter().find(undefined) {
            return Err(LoadError::Undefined {
                name: variable.name.clone(),
            });
        }
        let kernel_index = image
            .kernels
            .iter()
            .enumerate()
            .map(|(i, k)| (k.name.clone(), i))
            .collect();
        let code = ExecutableCode::new(&image.code, image.kernels)?;
        // From here on, dropping the module frees the allocated variables.
        let mut module = LoadedModule {
            code,
            tier_up: TierUp::new(image.ptx),
            variables: image.variables,
            addresses: Vec::new(),
            kernel_index,
            memory: Arc::clone(memory),
        };
        for variable in &module.variables {
            if variable.external {
                module.addresses.extend(defined(&variable.name));
                continue;
            }
            let purpose = match variable.managed {
                true => Purpose::Managed,
                false => Purpose::Variable,
            };
            let address = memory
                .allocate(variable.size.max(1), u64::from(variable.align), purpose)
                .map_err(|source| LoadError::Memory {
                    name: variable.name.clone(),
                    source,
                })?;
            module.addresses.push(address);
        }
        for (variable, &address) in module.variables.iter().zip(&module.addresses) {
            if !variable.external {
                initialise(variable, address, &module.addresses);
            }
        }
        Ok(module)
    }

    /// Bytes of the variables in `.const`.
    pub(crate) fn constant_bytes(&self) -> u64 {
        let constant = self.variables.iter().filter(|variable| variable.constant);
        constant.map(|variable| variable.size).sum()
    }

    /// The kernels, in the order of the PTX.
    pub fn kernels(&self) -> &[KernelImage] {
        self.code.kernels()
    }

    /// The index of the kernel with this name.
    pub fn kernel(&self, name: &str) -> Option<usize> {
        self.kernel_index.get(name).copied()
    }

    /// Address and size of the variable with this name.
    pub fn variable(&self, name: &str) -> Option<(u64, u64)> {
        let is_it = |v: &VariableImage| v.name == name && v.reference == Reference::None;
        let index = self.variables.iter().position(is_it)?;
        Some((*self.addresses.get(index)?, self.variables[index].size))
    }

    /// The same, if the variable is managed.
    pub fn managed(&self, name: &str) -> Option<(u64, u64)> {
        let variable = self.variables.iter().find(|v| v.name == name)?;
        self.variable(name).filter(|_| variable.managed)
    }

    /// Address of the texture or surface reference with this name.
    pub(crate) fn reference(&self, name: &str, kind: Reference) -> Option<u64> {
        let is_it = |v: &VariableImage| v.name == name && v.reference == kind;
        let index = self.variables.iter().position(is_it)?;
        self.addresses.get(index).copied()
    }

    /// The addresses of the variables that its device owns: neither `.extern` nor managed
    /// ones.
    pub(crate) fn own_addresses(&self) -> impl Iterator<Item = u64> {
        let own = |variable: &VariableImage| !variable.external && !variable.managed;
        let all = self.variables.iter().zip(&self.addresses);
        all.filter(move |(variable, _)| own(variable))
            .map(|(_, address)| *address)
    }

    /// The address of each variable, for compiled code.
    pub(crate) fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// Whether the optimized code of a hot module is ready
    /// ([`Vectorization::WhenHot`](super::Vectorization::WhenHot)).
    #[cfg(test)]
    pub fn is_hot(&self) -> bool {
        self.tier_up.optimized().is_some()
    }

    /// The optimized code if it is ready, otherwise the first code.
    pub(crate) fn code(&self) -> &ExecutableCode {
        self.tier_up.optimized().unwrap_or(&self.code)
    }

    /// Records that one of its kernels ran for `time`.
    pub(crate) fn record_run(&self, time: Duration) {
        self.tier_up.record_run(time);
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        for (variable, &address) in self.variables.iter().zip(&self.addresses) {
            if variable.external {
                continue;
            }
            // It was allocated by `new`, so that this cannot fail.
            let _ = self.memory.free(address);
        }
    }
}

fn initialise(variable: &VariableImage, address: u64, addresses: &[u64]) {
    // SAFETY: `size` bytes at `address` were just allocated for the variable, and no other
    // code has the address yet.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut(address as *mut u8, variable.size as usize) };
    let (head, tail) = bytes.split_at_mut(variable.init.len());
    head.copy_from_slice(&variable.init);
    tail.fill(0);
    for relocation in &variable.relocations {
        let target = addresses[relocation.variable as usize].wrapping_add_signed(relocation.addend);
        let at = relocation.offset as usize;
        bytes[at..at + 8].copy_from_slice(&target.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::Relocation;

    fn image() -> Image {
        let variable = |name: &str, size, init: &[u8]| VariableImage {
            name: name.into(),
            size,
            align: 16,
            init: init.to_vec(),
            ..VariableImage::default()
        };
        let mut pointer = variable("pointer", 24, &[0xff; 16]);
        pointer.relocations = vec![Relocation {
            offset: 8,
            variable: 1,
            addend: 4,
        }];
        Image {
            arch: std::env::consts::ARCH.into(),
            variables: vec![pointer, variable("table", 40, &[1, 2, 3])],
            ..Image::default()
        }
    }

    #[test]
    fn variables_hold_their_first_values_and_are_freed() {
        let memory = Arc::new(DeviceMemory::with_size(1 << 20).unwrap());
        let free = memory.free_bytes();
        let module = LoadedModule::new(image(), &memory).unwrap();
        let (table, size) = module.variable("table").unwrap();
        assert_eq!(size, 40);
        let (pointer, _) = module.variable("pointer").unwrap();
        // SAFETY: both ranges are the module's variables.
        let (table_bytes, pointer_bytes) = unsafe {
            (
                std::slice::from_raw_parts(table as *const u8, 40),
                std::slice::from_raw_parts(pointer as *const u8, 24),
            )
        };
        assert_eq!(table_bytes[..5], [1, 2, 3, 0, 0]);
        assert_eq!(pointer_bytes[..8], [0xff; 8]);
        assert_eq!(pointer_bytes[8..16], (table + 4).to_le_bytes());
        assert_eq!(pointer_bytes[16..], [0; 8]);
        drop(module);
        assert_eq!(memory.free_bytes(), free);
    }

    #[test]
    fn what_does_not_fit_is_an_error_and_leaves_nothing() {
        let memory = Arc::new(DeviceMemory::with_size(1 << 20).unwrap());
        let free = memory.free_bytes();
        let mut large = image();
        large.variables[1].size = 1 << 30;
        assert!(
            matches!(LoadedModule::new(large, &memory), Err(LoadError::Memory { name, .. }) if name == "table")
        );
        assert_eq!(memory.free_bytes(), free);

        for (arch, features) in [
            ("sparc64", vec![]),
            (std::env::consts::ARCH, vec!["no-such-unit".to_owned()]),
        ] {
            let foreign = Image {
                arch: arch.into(),
                features,
                ..image()
            };
            let error = LoadedModule::new(foreign, &memory);
            assert!(matches!(
                error,
                Err(LoadError::Blob(BlobError::Processor { .. }))
            ));
        }

        let mut external = image();
        external.variables[0].external = true;
        assert!(matches!(
            LoadedModule::new(external, &memory),
            Err(LoadError::Undefined { .. })
        ));
    }
}
