//! Why a blob cannot be loaded.

/// The format version. It increases with every change of the format or of the ABI.
pub const VERSION: u32 = 20;

/// Why a blob cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
#[non_exhaustive]
pub enum BlobError {
    #[error("not a binary of the CPU device (it does not start with PTXKCPU1)")]
    NotABlob,
    #[error(
        "binary of the CPU device in format {found}, this ptxkit reads format {VERSION}: compile it again"
    )]
    Version { found: u32 },
    #[error("damaged binary of the CPU device: {what}")]
    Damaged { what: &'static str },
    #[error("binary compiled for {needs}, which this processor lacks: compile it again here")]
    Processor { needs: String },
}

pub(super) fn damaged<T>(what: &'static str) -> Result<T, BlobError> {
    Err(BlobError::Damaged { what })
}
