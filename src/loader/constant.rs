//! Constants of a module that is cut: each slice that reads one has a copy.

use std::collections::HashMap;
use std::sync::Arc;

use super::LoadError;
use super::cut::{CompileSettings, Cut};
use super::index::{Index, Variable};
use super::modules::lock;
use crate::driver::{self, Error, Global, Module, Pod};

/// A `.const` variable of a [`SlicedModule`](super::SlicedModule), which the host writes.
///
/// Each slice that reads it has a copy, so it has no one address. A write goes to the
/// copies that are loaded, and to the others when they are.
#[derive(Clone, Debug)]
pub struct Constant(Place);

#[derive(Clone, Debug)]
enum Place {
    Whole(Global),
    Copies {
        cut: Arc<Cut>,
        name: String,
        bytes: usize,
    },
}

/// What the host wrote to constants: the first bytes of each, as many as were ever
/// written.
#[derive(Debug, Default)]
pub(super) struct ConstantWrites(HashMap<String, Vec<u8>>);

impl Constant {
    pub(super) fn whole(global: Global) -> Constant {
        Constant(Place::Whole(global))
    }

    pub(super) fn of(cut: &Arc<Cut>, variable: &Variable) -> Result<Constant, Error> {
        let bytes = usize::try_from(variable.bytes).map_err(|_| Error::UnknownGlobal {
            name: variable.name.clone(),
        })?;
        Ok(Constant(Place::Copies {
            cut: Arc::clone(cut),
            name: variable.name.clone(),
            bytes,
        }))
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Place::Whole(global) => global.bytes(),
            Place::Copies { bytes, .. } => *bytes,
        }
    }

    /// Sets it to one value of its size.
    pub fn set<T: Pod>(&self, value: T) -> Result<(), Error> {
        if size_of::<T>() != self.bytes() {
            return Err(self.length("value of a constant", size_of::<T>()));
        }
        self.write(&[value])
    }

    /// Writes its first values (`cuMemcpyHtoD_v2` for each copy that is loaded). After an
    /// error some copies may have them and others not.
    pub fn write<T: Pod>(&self, values: &[T]) -> Result<(), Error> {
        let (cut, name) = match &self.0 {
            Place::Whole(global) => return global.write(values),
            Place::Copies { cut, name, .. } => (cut, name),
        };
        let bytes = driver::bytes_of(values);
        if bytes.len() > self.bytes() {
            return Err(self.length("write to a constant", bytes.len()));
        }
        let variable = cut.index.variable(name).map(|variable| &variable.slices);
        // Held meanwhile: a slice that is loaded now has these values or those before,
        // and those before are then overwritten.
        let mut written = lock(&cut.written);
        let known = written.0.entry(name.clone()).or_default();
        let overwritten = known.len().min(bytes.len());
        drop(known.splice(..overwritten, bytes.iter().copied()));
        for slice in variable.into_iter().flatten() {
            if let Some(loaded) = cut.loaded(*slice) {
                loaded.module.global(name)?.write(values)?;
            }
        }
        Ok(())
    }

    /// Reads its first `len` values from one copy, which is loaded for that where none
    /// is.
    pub fn read<T: Pod>(&self, len: usize) -> Result<Vec<T>, LoadError> {
        let (cut, name) = match &self.0 {
            Place::Whole(global) => return Ok(global.read(len)?),
            Place::Copies { cut, name, .. } => (cut, name),
        };
        let unknown = || Error::UnknownGlobal { name: name.clone() };
        let slices = &cut.index.variable(name).ok_or_else(unknown)?.slices;
        let loaded = slices.iter().find_map(|slice| cut.loaded(*slice));
        let loaded = match (loaded, slices.first()) {
            (Some(loaded), _) => loaded,
            (None, Some(first)) => cut.load(*first, CompileSettings::default())?,
            (None, None) => return Err(unknown().into()),
        };
        Ok(loaded.module.global(name)?.read(len)?)
    }

    fn length(&self, what: &'static str, given: usize) -> Error {
        Error::Length {
            what,
            given,
            capacity: self.bytes(),
        }
    }
}

impl ConstantWrites {
    /// Writes the constants of a slice that was loaded just now.
    pub(super) fn copy_to(
        &self,
        index: &Index,
        slice: usize,
        module: &Module,
    ) -> Result<(), Error> {
        for (name, bytes) in &self.0 {
            let variable = index.variable(name);
            if variable.is_some_and(|variable| variable.slices.contains(&slice)) {
                module.global(name)?.write(bytes)?;
            }
        }
        Ok(())
    }
}
