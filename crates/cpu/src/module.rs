//! Loaded modules: code, and variables in device memory.

use std::sync::{Arc, OnceLock};

#[cfg(test)]
use super::blob::Image;
use super::blob::{Reference, VariableImage};
use super::code::ModuleCode;
use super::lines::{Line, Lines};
use super::memory::{DeviceMemory, MemoryError, Purpose};

/// Why a module could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no device memory for a variable.
    #[error("variable {name}: {source}")]
    Memory {
        /// The variable.
        name: String,
        /// The error of the allocation.
        source: MemoryError,
    },
    /// An `.extern` variable without a size is not defined.
    #[error("variable {name} is .extern and has no size: link the module that defines it")]
    Undefined {
        /// The variable.
        name: String,
    },
}

/// From a line of a module's PTX to the line of the text from which that was cut; `None` for
/// a line that was added.
pub(crate) type OriginalLines = dyn Fn(u32) -> Option<u32> + Send + Sync;

/// A module whose kernels can be launched. Dropping it frees its variables.
pub struct LoadedModule {
    code: Arc<ModuleCode>,
    original_lines: OnceLock<Box<OriginalLines>>,
    addresses: Vec<u64>,
    /// Which variables are another module's. An `.extern` one that no module defines is its own.
    is_elsewhere: Vec<bool>,
    memory: Arc<DeviceMemory>,
}

impl LoadedModule {
    /// Maps the code of an image, and allocates and initializes its variables.
    #[cfg(test)]
    pub fn of_image(
        image: Image,
        memory: &Arc<DeviceMemory>,
    ) -> Result<LoadedModule, Box<dyn std::error::Error>> {
        let code = Arc::new(ModuleCode::compiled(image)?);
        Ok(LoadedModule::new(&code, memory, |_| None)?)
    }

    /// Allocates and initializes the variables of a module. `defined` returns the addresses
    /// of `.extern` variables.
    pub(crate) fn new(
        code: &Arc<ModuleCode>,
        memory: &Arc<DeviceMemory>,
        defined: impl Fn(&str) -> Option<u64>,
    ) -> Result<LoadedModule, LoadError> {
        let elsewhere: Vec<Option<u64>> = code
            .variables()
            .iter()
            .map(|variable| variable.external.then(|| defined(&variable.name)).flatten())
            .collect();
        let undefined =
            |(v, at): &(&VariableImage, &Option<u64>)| v.external && v.size == 0 && at.is_none();
        if let Some((variable, _)) = code.variables().iter().zip(&elsewhere).find(undefined) {
            return Err(LoadError::Undefined {
                name: variable.name.clone(),
            });
        }
        // From here on, dropping the module frees the allocated variables.
        let mut module = LoadedModule {
            code: Arc::clone(code),
            original_lines: OnceLock::new(),
            addresses: Vec::new(),
            is_elsewhere: elsewhere.iter().map(Option::is_some).collect(),
            memory: Arc::clone(memory),
        };
        for (variable, elsewhere) in code.variables().iter().zip(elsewhere) {
            if let Some(address) = elsewhere {
                module.addresses.push(address);
                continue;
            }
            let purpose = if variable.managed {
                Purpose::Managed
            } else {
                Purpose::Variable
            };
            let address = memory
                .allocate(variable.size.max(1), u64::from(variable.align), purpose)
                .map_err(|source| LoadError::Memory {
                    name: variable.name.clone(),
                    source,
                })?;
            module.addresses.push(address);
        }
        for ((variable, &address), is_elsewhere) in code
            .variables()
            .iter()
            .zip(&module.addresses)
            .zip(&module.is_elsewhere)
        {
            if !is_elsewhere {
                initialise(variable, address, &module.addresses);
            }
        }
        Ok(module)
    }

    /// Its code, which other contexts may share.
    pub(crate) fn code(&self) -> &Arc<ModuleCode> {
        &self.code
    }

    /// Has faults name lines of the text from which the PTX was cut. The first call counts.
    pub(crate) fn set_original_lines(&self, lines: Box<OriginalLines>) {
        let _ = self.original_lines.set(lines);
    }

    fn variables(&self) -> &[VariableImage] {
        self.code.variables()
    }

    /// Address and size of the variable with this name.
    pub fn variable(&self, name: &str) -> Option<(u64, u64)> {
        let is_it = |v: &VariableImage| v.name == name && v.reference == Reference::None;
        let index = self.variables().iter().position(is_it)?;
        Some((*self.addresses.get(index)?, self.variables()[index].size))
    }

    /// The same, if the variable is managed.
    pub fn managed(&self, name: &str) -> Option<(u64, u64)> {
        let variable = self.variables().iter().find(|v| v.name == name)?;
        self.variable(name).filter(|_| variable.managed)
    }

    /// Address of the texture or surface reference with this name.
    pub(crate) fn reference(&self, name: &str, kind: Reference) -> Option<u64> {
        let is_it = |v: &VariableImage| v.name == name && v.reference == kind;
        let index = self.variables().iter().position(is_it)?;
        self.addresses.get(index).copied()
    }

    /// The addresses of the variables that its device owns: neither another module's nor managed
    /// ones.
    pub(crate) fn own_addresses(&self) -> impl Iterator<Item = u64> {
        let all = self.variables().iter().zip(&self.addresses);
        all.zip(&self.is_elsewhere)
            .filter(|((variable, _), is_elsewhere)| !**is_elsewhere && !variable.managed)
            .map(|(all, _)| all)
            .map(|(_, address)| *address)
    }

    /// The address of each variable, for compiled code.
    pub(crate) fn addresses(&self) -> &[u64] {
        &self.addresses
    }
}

impl Lines for LoadedModule {
    /// A line that was added to the module keeps its number.
    fn line(&self, compiled: u32) -> Line {
        let original = self.original_lines.get();
        let original = original.and_then(|original| original(compiled));
        Line {
            ptx: original.unwrap_or(compiled),
            source: self.code.line_table().source(compiled),
        }
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        for (is_elsewhere, &address) in self.is_elsewhere.iter().zip(&self.addresses) {
            if *is_elsewhere {
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
    use crate::blob::{BlobError, Relocation};
    use crate::code::CodeError;

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
        let module = LoadedModule::of_image(image(), &memory).unwrap();
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
        let error = LoadedModule::of_image(large, &memory).err().unwrap();
        assert!(
            matches!(error.downcast_ref(), Some(LoadError::Memory { name, .. }) if name == "table")
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
            let error = ModuleCode::compiled(foreign).err();
            assert!(matches!(
                error,
                Some(CodeError::Blob(BlobError::Processor { .. }))
            ));
        }

        let mut external = image();
        external.variables[0].external = true;
        external.variables[0].size = 0;
        let error = LoadedModule::of_image(external, &memory).err().unwrap();
        assert!(matches!(
            error.downcast_ref(),
            Some(LoadError::Undefined { .. })
        ));
    }
}
