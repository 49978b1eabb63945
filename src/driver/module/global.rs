//! Variables of modules.

use std::ffi::CString;

use crate::driver::error::Error;
use crate::driver::module::Module;
use crate::driver::pod::{Pod, bytes_of, bytes_of_mut, zeroed};
use api::CUdeviceptr;
use api::CudaError;

/// A `.global` or `.const` variable of a module.
#[derive(Clone, Debug)]
pub struct Global {
    module: Module,
    address: CUdeviceptr,
    bytes: usize,
}

impl Module {
    /// A variable of the module, `.global` or `.const` (`cuModuleGetGlobal_v2`).
    pub fn global(&self, name: &str) -> Result<Global, Error> {
        let unknown = || Error::UnknownGlobal {
            name: name.to_owned(),
        };
        let symbol = CString::new(name).map_err(|_| unknown())?;
        let api = self.context().bind()?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the name ends in NUL; the module is live.
        let found = unsafe {
            api.cuModuleGetGlobal_v2(&mut address, &mut bytes, self.raw(), symbol.as_ptr())
        };
        match found {
            Ok(()) => Ok(Global::of(self.clone(), address, bytes)),
            Err(error) if error.code() == Some(CudaError::NOT_FOUND) => Err(unknown()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Global {
    /// A variable that the driver found.
    pub(crate) fn of(module: Module, address: CUdeviceptr, bytes: usize) -> Global {
        Global {
            module,
            address,
            bytes,
        }
    }

    /// Its address on the device.
    pub fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets it to one value of its size (`cuMemcpyHtoD_v2`).
    pub fn set<T: Pod>(&self, value: T) -> Result<(), Error> {
        self.check_whole::<T>()?;
        self.write(&[value])
    }

    /// Its value, of a type that has its size (`cuMemcpyDtoH_v2`).
    pub fn get<T: Pod>(&self) -> Result<T, Error> {
        self.check_whole::<T>()?;
        let values = self.read(1)?;
        values.into_iter().next().ok_or(Error::Length {
            what: "value of a variable",
            given: size_of::<T>(),
            capacity: self.bytes,
        })
    }

    fn check_whole<T>(&self) -> Result<(), Error> {
        if size_of::<T>() != self.bytes {
            return Err(Error::Length {
                what: "value of a variable",
                given: size_of::<T>(),
                capacity: self.bytes,
            });
        }
        Ok(())
    }

    /// Writes its first values (`cuMemcpyHtoD_v2`).
    pub fn write<T: Pod>(&self, values: &[T]) -> Result<(), Error> {
        let bytes = bytes_of(values);
        self.check("write to a variable", bytes.len())?;
        let api = self.module.context().bind()?;
        // SAFETY: the variable has that many bytes and lives as long as its module.
        unsafe { Ok(api.cuMemcpyHtoD_v2(self.address, bytes.as_ptr().cast(), bytes.len())?) }
    }

    /// Reads its first `len` values (`cuMemcpyDtoH_v2`).
    pub fn read<T: Pod>(&self, len: usize) -> Result<Vec<T>, Error> {
        let bytes = len.saturating_mul(size_of::<T>());
        self.check("read of a variable", bytes)?;
        let mut values = zeroed::<T>(len);
        let destination = bytes_of_mut(&mut values);
        let api = self.module.context().bind()?;
        // SAFETY: as `write`, the other way.
        unsafe {
            api.cuMemcpyDtoH_v2(
                destination.as_mut_ptr().cast(),
                self.address,
                destination.len(),
            )
        }?;
        Ok(values)
    }

    fn check(&self, what: &'static str, given: usize) -> Result<(), Error> {
        if given > self.bytes {
            return Err(Error::Length {
                what,
                given,
                capacity: self.bytes,
            });
        }
        Ok(())
    }
}
