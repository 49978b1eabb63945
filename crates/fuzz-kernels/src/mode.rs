//! The modes that kernels run in.

/// How a kernel is compiled and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The first code of the CPU device, compiled fast, one thread at a time.
    Baseline,
    /// Optimized code, one thread at a time.
    Scalar,
    /// Vector code where it pays.
    Auto,
    /// Vector code always.
    Vectors,
    /// The code of a kernel that became hot, after launches of larger grids.
    Hot,
    /// The kernel's slice of the module, vectorized.
    Sliced,
    /// One worker thread runs all blocks.
    OneWorker,
    /// NVIDIA's driver.
    Nvidia,
    /// The reference interpreter, for kernels of its subset.
    Reference,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 9] = [
        Mode::Baseline,
        Mode::Scalar,
        Mode::Auto,
        Mode::Vectors,
        Mode::Hot,
        Mode::Sliced,
        Mode::OneWorker,
        Mode::Nvidia,
        Mode::Reference,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Baseline => "baseline",
            Mode::Scalar => "scalar",
            Mode::Auto => "auto",
            Mode::Vectors => "vectors",
            Mode::Hot => "hot",
            Mode::Sliced => "sliced",
            Mode::OneWorker => "one-worker",
            Mode::Nvidia => "nvidia",
            Mode::Reference => "reference",
        }
    }

    /// The variables of a process that runs in this mode.
    pub fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Mode::Baseline | Mode::Hot => &[("PTXKIT_CPU_LANES", "hot")],
            Mode::Scalar => &[("PTXKIT_CPU_LANES", "never")],
            Mode::Auto => &[("PTXKIT_CPU_LANES", "auto")],
            Mode::Vectors => &[("PTXKIT_CPU_LANES", "always")],
            Mode::Sliced => &[("PTXKIT_CPU_LANES", "auto"), ("PTXKIT_SLICED", "always")],
            Mode::OneWorker => &[("PTXKIT_CPU_LANES", "auto"), ("PTXKIT_CPU_THREADS", "1")],
            Mode::Nvidia | Mode::Reference => &[],
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(word: &str) -> Result<Mode, String> {
        Mode::ALL
            .into_iter()
            .find(|mode| mode.name() == word)
            .ok_or_else(|| {
                let names: Vec<&str> = Mode::ALL.iter().map(|mode| mode.name()).collect();
                format!("expected one of {}", names.join(", "))
            })
    }
}
