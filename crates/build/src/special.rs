//! Special registers, with their types.

use std::marker::PhantomData;

/// A special register of type `T`, which [`Code::special`](crate::Code::special) reads.
#[derive(Debug)]
pub struct Special<T> {
    name: &'static str,
    ty: PhantomData<T>,
}

impl<T> Clone for Special<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Special<T> {}

impl<T> Special<T> {
    const fn new(name: &'static str) -> Special<T> {
        Special {
            name,
            ty: PhantomData,
        }
    }

    /// `%tid.x`
    pub const fn name(self) -> &'static str {
        self.name
    }
}

macro_rules! special {
    ($($(#[doc = $doc:literal])* $constant:ident: $ty:ty = $name:literal;)*) => {
        $($(#[doc = $doc])* pub const $constant: Special<$ty> = Special::new($name);)*

        #[cfg(test)]
        const NAMES: &[(&str, &str)] = &[$(($name, stringify!($ty))),*];
    };
}

special! {
    /// The number of the thread in its block, along x.
    TID_X: u32 = "%tid.x";
    /// Along y.
    TID_Y: u32 = "%tid.y";
    /// Along z.
    TID_Z: u32 = "%tid.z";
    /// The threads of a block, along x.
    NTID_X: u32 = "%ntid.x";
    /// Along y.
    NTID_Y: u32 = "%ntid.y";
    /// Along z.
    NTID_Z: u32 = "%ntid.z";
    /// The number of the block in the grid, along x.
    CTAID_X: u32 = "%ctaid.x";
    /// Along y.
    CTAID_Y: u32 = "%ctaid.y";
    /// Along z.
    CTAID_Z: u32 = "%ctaid.z";
    /// The blocks of the grid, along x.
    NCTAID_X: u32 = "%nctaid.x";
    /// Along y.
    NCTAID_Y: u32 = "%nctaid.y";
    /// Along z.
    NCTAID_Z: u32 = "%nctaid.z";
    /// The number of the thread in its warp.
    LANEID: u32 = "%laneid";
    /// The number of the warp in its block. It may change while the kernel runs.
    WARPID: u32 = "%warpid";
    /// The number of the multiprocessor. It may change while the kernel runs.
    SMID: u32 = "%smid";
    /// The bit of this lane.
    LANEMASK_EQ: u32 = "%lanemask_eq";
    /// The bits of the lanes below this one.
    LANEMASK_LT: u32 = "%lanemask_lt";
    /// The bits of this lane and those below.
    LANEMASK_LE: u32 = "%lanemask_le";
    /// The bits of the lanes above this one.
    LANEMASK_GT: u32 = "%lanemask_gt";
    /// The bits of this lane and those above.
    LANEMASK_GE: u32 = "%lanemask_ge";
    /// Cycles of the multiprocessor, which wrap.
    CLOCK: u32 = "%clock";
    /// Cycles of the multiprocessor.
    CLOCK64: u64 = "%clock64";
    /// Nanoseconds.
    GLOBALTIMER: u64 = "%globaltimer";
    /// The bytes of dynamic shared memory.
    DYNAMIC_SMEM_SIZE: u32 = "%dynamic_smem_size";
    /// The number of the block in its cluster.
    CLUSTER_CTARANK: u32 = "%cluster_ctarank";
}

#[cfg(test)]
mod tests {
    use ptx::isa::special;
    use ptx::names::SpecialRegister;

    #[test]
    fn each_is_in_the_table_with_its_type() {
        for (name, ty) in super::NAMES {
            let register = SpecialRegister::from_text(name).unwrap();
            let types = format!("{:?}", special::of(register));
            assert!(types.contains(&ty.to_uppercase()), "{name}: {types}");
        }
    }
}
