//! The modes that kernels run in.

use ptxkit::cpu::Vectorization;

/// How a kernel is compiled and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The first code of the CPU device, compiled fast, one thread at a time.
    Baseline,
    /// Optimized code, one thread at a time.
    Scalar,
    /// Vector code.
    Vectors,
    /// The same without AVX-512.
    Avx2,
    /// The code of a kernel that became hot, after launches of larger grids.
    Hot,
    /// The kernel's slice of the module, vectorized.
    Sliced,
    /// One worker thread runs all blocks.
    OneWorker,
    /// NVIDIA's driver.
    Nvidia,
    /// The same without optimization: where the two differ, NVIDIA's compiler is wrong, or the kernel is.
    NvidiaUnoptimized,
    /// The reference interpreter, for kernels of its subset.
    Reference,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 10] = [
        Mode::Baseline,
        Mode::Scalar,
        Mode::Vectors,
        Mode::Avx2,
        Mode::Hot,
        Mode::Sliced,
        Mode::OneWorker,
        Mode::Nvidia,
        Mode::NvidiaUnoptimized,
        Mode::Reference,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Baseline => "baseline",
            Mode::Scalar => "scalar",
            Mode::Vectors => "vectors",
            Mode::Avx2 => "avx2",
            Mode::Hot => "hot",
            Mode::Sliced => "sliced",
            Mode::OneWorker => "one-worker",
            Mode::Nvidia => "nvidia",
            Mode::NvidiaUnoptimized => "nvidia-o0",
            Mode::Reference => "reference",
        }
    }

    /// Whether it needs an NVIDIA GPU.
    pub fn is_nvidia(self) -> bool {
        matches!(self, Mode::Nvidia | Mode::NvidiaUnoptimized)
    }

    /// The variables of a process that runs in this mode.
    pub fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Mode::OneWorker => &[("PTXKIT_CPU_THREADS", "1")],
            Mode::Avx2 => &[("PTXKIT_CPU_THREADS", "2"), ("PTXKIT_CPU_MAX_ISA", "avx2")],
            // As few as there may be cores for each of several kernels at a time.
            _ => &[("PTXKIT_CPU_THREADS", "2")],
        }
    }

    /// When kernels are vectorized; `None` is as the driver loads a module: on the CPU device
    /// where it is hot.
    pub fn vectorization(self) -> Option<Vectorization> {
        match self {
            Mode::Scalar => Some(Vectorization::Never),
            Mode::Vectors | Mode::Avx2 | Mode::Sliced | Mode::OneWorker => {
                Some(Vectorization::Always)
            }
            Mode::Baseline
            | Mode::Hot
            | Mode::Nvidia
            | Mode::NvidiaUnoptimized
            | Mode::Reference => None,
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
