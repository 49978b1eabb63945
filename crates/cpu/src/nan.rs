//! Whose NaNs results are.

use std::sync::OnceLock;

const VARIABLE: &str = "PTXKIT_CPU_NAN";

/// Which bits the NaNs have that instructions compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NanBits {
    /// Those of the host's instructions. A result is a NaN where a GPU's is, but its sign and payload
    /// may be others, and may depend on the tier.
    #[default]
    Host,
    /// Those of an NVIDIA GPU, in every tier. This costs a comparison and a selection per result.
    Gpu,
}

impl NanBits {
    /// The choice of the variable `PTXKIT_CPU_NAN`: `host`, which is the default, or `gpu`. It is read
    /// once; an unknown word is warned of.
    pub fn of_process() -> NanBits {
        static CHOICE: OnceLock<NanBits> = OnceLock::new();
        *CHOICE.get_or_init(|| match std::env::var(VARIABLE).as_deref() {
            Ok("gpu") => NanBits::Gpu,
            Ok("host" | "") | Err(_) => NanBits::Host,
            Ok(word) => {
                tracing::warn!("{VARIABLE}={word} is unknown: use host or gpu");
                NanBits::Host
            }
        })
    }
}
