//! How a kernel is launched: grid, block and shared memory, and `launch!`.

/// Blocks of a grid and threads of a block, in x, y, z, and the bytes of dynamic
/// shared memory each block gets.
///
/// ```
/// use ptxkit::driver::LaunchConfig;
/// let config = LaunchConfig::for_elements(1000, 256);
/// assert_eq!((config.grid, config.block), ([4, 1, 1], [256, 1, 1]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchConfig {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of each block.
    pub shared_bytes: u32,
}

impl Default for LaunchConfig {
    /// One thread.
    fn default() -> LaunchConfig {
        LaunchConfig::new([1; 3], [1; 3])
    }
}

impl LaunchConfig {
    /// Without dynamic shared memory.
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> LaunchConfig {
        LaunchConfig {
            grid,
            block,
            shared_bytes: 0,
        }
    }

    /// Enough blocks of `block` threads in a row for `elements`; at least one.
    pub const fn for_elements(elements: u32, block: u32) -> LaunchConfig {
        let block = if block == 0 { 1 } else { block };
        let blocks = elements.div_ceil(block);
        let blocks = if blocks == 0 { 1 } else { blocks };
        LaunchConfig::new([blocks, 1, 1], [block, 1, 1])
    }

    /// The same with dynamic shared memory.
    pub const fn with_shared(self, shared_bytes: u32) -> LaunchConfig {
        LaunchConfig {
            shared_bytes,
            ..self
        }
    }
}

/// Dimensions of a grid or a block: one number, or up to three; missing ones are 1.
///
/// ```
/// use ptxkit::driver::Dim;
/// assert_eq!(Dim::from(256), Dim([256, 1, 1]));
/// assert_eq!(Dim::from((16, 16)), Dim([16, 16, 1]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim(pub [u32; 3]);

impl From<u32> for Dim {
    fn from(x: u32) -> Dim {
        Dim([x, 1, 1])
    }
}

impl From<(u32, u32)> for Dim {
    fn from((x, y): (u32, u32)) -> Dim {
        Dim([x, y, 1])
    }
}

impl From<(u32, u32, u32)> for Dim {
    fn from((x, y, z): (u32, u32, u32)) -> Dim {
        Dim([x, y, z])
    }
}

impl From<[u32; 3]> for Dim {
    fn from(all: [u32; 3]) -> Dim {
        Dim(all)
    }
}

/// A grid and a block.
impl<G: Into<Dim>, B: Into<Dim>> From<(G, B)> for LaunchConfig {
    fn from((grid, block): (G, B)) -> LaunchConfig {
        LaunchConfig::new(grid.into().0, block.into().0)
    }
}

/// Launches a kernel as CUDA C++ does with `<<<grid, block, shared, stream>>>`,
/// with any number of arguments, checked as [`Kernel::launch`](crate::driver::Kernel::launch)
/// checks them. It is `unsafe` as that is.
///
/// In the brackets stand grid and block (each anything that is a [`Dim`]), the
/// bytes of dynamic shared memory if there are any, and the stream; or a
/// [`LaunchConfig`] and the stream; or that, the stream and [`LaunchOptions`](crate::driver::LaunchOptions).
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, DeviceBuffer, Driver, LaunchConfig, Module, Stream};
/// use ptxkit::launch;
///
/// # let ptx = b".version 8.0 .target sm_80 .address_size 64
/// # .visible .entry store(.param .u64 to, .param .u32 value) {
/// #     .reg .b32 %r; .reg .b64 %rd;
/// #     ld.param.u64 %rd, [to]; ld.param.u32 %r, [value];
/// #     st.global.u32 [%rd], %r; ret; }";
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let store = Module::load(&context, ptx)?.kernel("store")?;
/// let stream = Stream::new(&context)?;
/// let to = DeviceBuffer::<u32>::zeroed(&context, 1)?;
///
/// // SAFETY: the kernel writes one number.
/// unsafe {
///     launch!(store[1, 32, &stream](&to, 7_u32))?;
///     launch!(store[(1, 1), (8, 4), 1024, &stream](&to, 8_u32))?;
///     launch!(store[LaunchConfig::for_elements(100, 64), &stream](&to, 9_u32))?;
/// }
/// assert_eq!(to.to_vec()?, [9]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[macro_export]
macro_rules! launch {
    ($($kernel:ident).+ [$config:expr, $stream:expr] ($($arg:expr),* $(,)?)) => {
        $($kernel).+.launch($config, $stream, [$($crate::driver::Argument::arg(&$arg)),*])
    };
    ($($kernel:ident).+ [$config:expr, $stream:expr; $options:expr] ($($arg:expr),* $(,)?)) => {
        $($kernel).+.launch_with(
            $config,
            $options,
            $stream,
            [$($crate::driver::Argument::arg(&$arg)),*],
        )
    };
    ($($kernel:ident).+ [$grid:expr, $block:expr, $stream:expr] ($($arg:expr),* $(,)?)) => {
        $crate::launch!($($kernel).+ [
            $crate::driver::LaunchConfig::from(($grid, $block)), $stream
        ] ($($arg),*))
    };
    ($($kernel:ident).+ [$grid:expr, $block:expr, $shared:expr, $stream:expr] ($($arg:expr),* $(,)?)) => {
        $crate::launch!($($kernel).+ [
            $crate::driver::LaunchConfig::from(($grid, $block)).with_shared($shared), $stream
        ] ($($arg),*))
    };
}

impl std::fmt::Display for LaunchConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ([gx, gy, gz], [bx, by, bz]) = (self.grid, self.block);
        write!(f, "grid {gx} x {gy} x {gz}, block {bx} x {by} x {bz}")?;
        match self.shared_bytes {
            0 => Ok(()),
            bytes => write!(f, ", {bytes} bytes of dynamic shared memory"),
        }
    }
}
