//! `ptxkit cache remote …`: the store that machines share.

use std::path::PathBuf;

#[cfg(not(feature = "remote"))]
pub use super::remote_absent::{check_writable, list, push, run};
#[cfg(feature = "remote")]
pub use super::remote_store::{check_writable, list, push, run};

pub const AFTER_HELP: &str = "\
The environment selects the store, for all programs that use it, or else
~/.config/ptxkit/remote.toml:
  PTXKIT_REMOTE        the address: redis://host:6379/0, memcached://host:11211, s3://bucket
  PTXKIT_REMOTE_TRUST  public keys, separated by commas: whose blobs are loaded
  PTXKIT_REMOTE_SIGN   the file of the private key, to write blobs

Exit status: 0 done, 1 the store does not answer, or blobs are damaged or rejected, 2 an
error.";

#[derive(Clone, Debug, clap::Subcommand)]
pub enum RemoteCommand {
    /// Show which store is used, whose blobs are loaded from it, and whether it answers
    Status,
    /// Write blobs of this machine's folder to the store, signed
    Push {
        /// Only these blobs: keys or prefixes of them; the default is all
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
        /// Write those that the store has already, too: after a change of the private key
        #[arg(long)]
        replace: bool,
    },
    /// Read blobs from the store into this machine's folder, after a check of each
    Pull {
        /// Only these blobs, with their slices; the default is all, where the store can list
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
    },
    /// Make a private key that signs blobs, and print the public key
    Keygen {
        /// The file to write: it must not exist, and only you can read it
        file: PathBuf,
    },
}
