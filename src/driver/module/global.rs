//! Variables of modules.

use crate::driver::error::Error;
use crate::driver::module::Module;
use crate::driver::pod::{Plain, bytes_of, bytes_of_mut, zeroed};
use api::CUdeviceptr;

/// A `.global` or `.const` variable of a module.
#[derive(Clone, Debug)]
pub struct Global {
    module: Module,
    address: CUdeviceptr,
    bytes: usize,
}

impl Global {
    /// A variable that the driver told of.
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

    /// Sets it to one value, which has its size (`cuMemcpyHtoD_v2`).
    pub fn set<T: Plain>(&self, value: T) -> Result<(), Error> {
        self.check_whole::<T>()?;
        self.write(&[value])
    }

    /// Its value, of a type that has its size (`cuMemcpyDtoH_v2`).
    pub fn get<T: Plain>(&self) -> Result<T, Error> {
        self.check_whole::<T>()?;
        let values = self.read(1)?;
        values.into_iter().next().ok_or(Error::Length {
            what: "value of a variable",
            given: size_of::<T>(),
            room: self.bytes,
        })
    }

    fn check_whole<T>(&self) -> Result<(), Error> {
        if size_of::<T>() != self.bytes {
            return Err(Error::Length {
                what: "value of a variable",
                given: size_of::<T>(),
                room: self.bytes,
            });
        }
        Ok(())
    }

    /// Writes its first values (`cuMemcpyHtoD_v2`).
    pub fn write<T: Plain>(&self, values: &[T]) -> Result<(), Error> {
        let bytes = bytes_of(values);
        self.check("write to a variable", bytes.len())?;
        let api = self.module.context().bind()?;
        // SAFETY: the variable has that many bytes and lives as long as its module.
        unsafe { Ok(api.cuMemcpyHtoD_v2(self.address, bytes.as_ptr().cast(), bytes.len())?) }
    }

    /// Reads its first `len` values (`cuMemcpyDtoH_v2`).
    pub fn read<T: Plain>(&self, len: usize) -> Result<Vec<T>, Error> {
        let bytes = len.saturating_mul(size_of::<T>());
        self.check("read of a variable", bytes)?;
        let mut values = zeroed::<T>(len);
        let room = bytes_of_mut(&mut values);
        let api = self.module.context().bind()?;
        // SAFETY: as `write`, the other way.
        unsafe { api.cuMemcpyDtoH_v2(room.as_mut_ptr().cast(), self.address, room.len()) }?;
        Ok(values)
    }

    fn check(&self, what: &'static str, given: usize) -> Result<(), Error> {
        if given > self.bytes {
            return Err(Error::Length {
                what,
                given,
                room: self.bytes,
            });
        }
        Ok(())
    }
}
