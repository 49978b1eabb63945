//! The checks before a launch: grid and block, stream, arguments.

use std::sync::atomic::Ordering;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::launch::argument::Arg;
use crate::driver::launch::config::LaunchConfig;
use crate::driver::launch::params::ParamBuffer;
use crate::driver::memory::allocation::Allocation;
use crate::driver::module::kernel::Kernel;
use crate::driver::stream::Stream;

impl Kernel {
    #[inline(always)]
    pub(crate) fn check_config(&self, config: &LaunchConfig) -> Result<(), Error> {
        let LaunchConfig { grid, block, .. } = config;
        let limits = self.context().limits();
        // Indices and no adaptors, as in all that a launch runs: some of those are calls.
        let [x, y, z] = *block;
        let layer = u64::from(x) * u64::from(y);
        if layer.saturating_mul(u64::from(z)) > u64::from(self.max_threads()) {
            return Err(self.block_too_large(block));
        }
        if let Some(required) = self.required_block()
            && required != *block
        {
            return Err(self.wrong_block(required, block));
        }
        // Less one: 0 is then out of range too.
        let is_within = |given: &[u32; 3], limit: &[u32; 3]| {
            (0..3).all(|axis| given[axis].wrapping_sub(1) < limit[axis])
        };
        if !is_within(grid, &limits.grid) {
            return Err(self.out_of_range("grid", grid, &limits.grid));
        }
        if !is_within(block, &limits.block) {
            return Err(self.out_of_range("block", block, &limits.block));
        }
        if config.shared_bytes > self.dynamic_shared().load(Ordering::Relaxed) {
            self.opt_in_shared(config.shared_bytes)?;
        }
        Ok(())
    }

    #[cold]
    fn block_too_large(&self, &block: &[u32; 3]) -> Error {
        Error::BlockTooLarge {
            kernel: self.name().to_owned(),
            block,
            limit: self.max_threads(),
        }
    }

    #[cold]
    fn wrong_block(&self, required: [u32; 3], &given: &[u32; 3]) -> Error {
        Error::RequiredBlock {
            kernel: self.name().to_owned(),
            required,
            given,
        }
    }

    /// The first axis that is out of range.
    #[cold]
    fn out_of_range(&self, what: &'static str, given: &[u32; 3], limit: &[u32; 3]) -> Error {
        let is_wrong = |&axis: &usize| given[axis] == 0 || given[axis] > limit[axis];
        let axis = (0..3).find(is_wrong).unwrap_or_default();
        Error::Dimension {
            kernel: self.name().to_owned(),
            what,
            axis,
            given: given[axis],
            limit: limit[axis],
        }
    }

    #[inline]
    pub(super) fn check_stream(&self, stream: &Stream) -> Result<(), Error> {
        if stream.context() == self.context() {
            Ok(())
        } else {
            Err(Error::DifferentContexts {
                what: "kernel and stream",
            })
        }
    }

    pub(crate) fn check_args(&self, args: &[Arg<'_>]) -> Result<(), Error> {
        if let Some(layout) = self.layout() {
            self.check_count(layout.params.len(), args.len())?;
            for (index, (expected, given)) in layout.params.iter().zip(args).enumerate() {
                if expected.size != given.size() {
                    return Err(self.wrong_size(index, given.size()));
                }
                if !given.may_stand_at(expected.offset) {
                    return Err(self.wrong_alignment(index, given.align()));
                }
                if let Some(used) = given.used() {
                    self.check_address(index, used.part.start())?;
                }
            }
        }
        for (index, arg) in args.iter().enumerate() {
            if let Some(memory) = arg.memory()
                && !memory.is_reached_from(self.context())
            {
                self.check_peer_argument(index, memory)?;
            }
            if let Some(object) = arg.object() {
                self.check_object(index, object.context())?;
            }
        }
        Ok(())
    }

    /// Whether the kernel's context reaches what the arguments stand for.
    pub(super) fn check_reach(&self, params: &ParamBuffer<'_>) -> Result<(), Error> {
        for (index, argument) in params.packed().iter().enumerate() {
            if let Some(memory) = argument.memory.as_ref()
                && !memory.is_reached_from(self.context())
            {
                self.check_peer_argument(index, memory)?;
            }
            if let Some((context, _)) = &argument.object {
                self.check_object(index, context)?;
            }
        }
        Ok(())
    }

    /// Whether the arguments lie where the parameters do, if that is known.
    pub(super) fn check_places(&self, params: &ParamBuffer<'_>) -> Result<(), Error> {
        let Some(layout) = self.layout() else {
            return Ok(());
        };
        let (expected, given) = (&layout.params, params.packed());
        self.check_count(expected.len(), given.len())?;
        for (index, (expected, given)) in expected.iter().zip(given).enumerate() {
            if expected.size != given.size {
                return Err(self.wrong_size(index, given.size));
            }
            if expected.offset != given.offset {
                return Err(self.wrong_offset(index, given.offset));
            }
            if given.memory.is_some() {
                self.check_address(index, given.part.start())?;
            }
        }
        Ok(())
    }

    /// Device code loads as much at once as the alignment that it declares allows.
    fn check_address(&self, index: usize, address: u64) -> Result<(), Error> {
        let param = self.layout().and_then(|layout| layout.params.get(index));
        match param {
            Some(param) if !address.is_multiple_of(param.pointer_align.max(1).into()) => {
                Err(Error::AddressAlignment {
                    kernel: self.name().to_owned(),
                    index,
                    address,
                    align: param.pointer_align,
                    declaration: param.declaration.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Textures and surfaces are their context's alone.
    fn check_object(&self, index: usize, context: &Context) -> Result<(), Error> {
        if context != self.context() {
            return Err(self.argument_context(index));
        }
        Ok(())
    }

    /// Memory of another context is good where peer access is enabled.
    #[cold]
    fn check_peer_argument(&self, index: usize, memory: &Allocation) -> Result<(), Error> {
        if self.context().reaches(memory.context()) {
            memory.record_peer(self.context());
            return Ok(());
        }
        Err(self.argument_context(index))
    }

    #[cold]
    fn argument_context(&self, index: usize) -> Error {
        Error::ArgumentContext {
            kernel: self.name().to_owned(),
            index,
        }
    }

    fn check_count(&self, expected: usize, given: usize) -> Result<(), Error> {
        if expected != given {
            return Err(Error::ArgumentCount {
                kernel: self.name().to_owned(),
                expected,
                given,
            });
        }
        Ok(())
    }

    #[cold]
    fn wrong_size(&self, index: usize, given: usize) -> Error {
        let expected = self.layout().and_then(|layout| layout.params.get(index));
        Error::ArgumentSize {
            kernel: self.name().to_owned(),
            index,
            expected: expected.map_or(0, |param| param.size),
            given,
            declaration: expected.and_then(|param| param.declaration.clone()),
        }
    }

    #[cold]
    fn wrong_alignment(&self, index: usize, given: usize) -> Error {
        let expected = self.layout().and_then(|layout| layout.params.get(index));
        Error::ArgumentAlignment {
            kernel: self.name().to_owned(),
            index,
            offset: expected.map_or(0, |param| param.offset),
            given,
            declaration: expected.and_then(|param| param.declaration.clone()),
        }
    }

    #[cold]
    fn wrong_offset(&self, index: usize, given: usize) -> Error {
        let expected = self.layout().and_then(|layout| layout.params.get(index));
        Error::ArgumentOffset {
            kernel: self.name().to_owned(),
            index,
            expected: expected.map_or(0, |param| param.offset),
            given,
            declaration: expected.and_then(|param| param.declaration.clone()),
        }
    }
}
