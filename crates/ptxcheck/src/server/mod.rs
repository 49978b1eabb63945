//! `ptxcheck server`: the language server, over standard input and output.
//!
//! The session keeps the open texts and reads messages. Two threads work on what they
//! are at the time: one checks and publishes diagnostics, the other answers requests.
//! Neither waits for the other, and a change waits for none of them.

mod actions;
mod answers;
mod checker;
mod completion;
mod document;
mod format;
mod hints;
mod hover;
mod outline;
mod protocol;
mod references;
mod register;
mod rename;
mod session;
mod text;
mod transport;
mod tree;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::args::CheckArgs;
use session::Session;
use terminal::failure::{FAILED, Failure, VERIFIED};

/// The arguments of `ptxcheck server`.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// Use this ptxcheck.toml. The default is the nearest one above each file, up to the
    /// top of the git repository
    #[arg(long, value_name = "FILE", conflicts_with = "isolated")]
    config: Option<PathBuf>,
    /// Ignore all ptxcheck.toml files
    #[arg(long)]
    isolated: bool,
}

/// Serves one client until it says `exit` or is gone; returns the exit status.
///
/// # Errors
/// The client does not speak the protocol, or the file of `--config` cannot be used.
pub fn run(args: &ServerArgs) -> Result<u8, Failure> {
    let args = CheckArgs {
        config: args.config.clone(),
        isolated: args.isolated,
        ..CheckArgs::default()
    };
    let connection = transport::stdio();
    let broken = |error: &dyn std::fmt::Display| {
        Failure::new(format!("the client does not speak the protocol: {error}"))
            .help("an editor starts this command; docs/editors.md says how")
    };
    let (id, params) = connection
        .initialize_start()
        .map_err(|error| broken(&error))?;
    let session = Session::new(&args, &params, connection.sender.clone())?;
    connection
        .initialize_finish(id, initialized())
        .map_err(|error| broken(&error))?;
    // The threads end with the process: none of them keeps anything.
    if session.serve(&connection) {
        Ok(VERIFIED)
    } else {
        Ok(FAILED)
    }
}

fn initialized() -> Value {
    // A client sends what has changed, not the whole text.
    const INCREMENTAL: u8 = 2;
    json!({
        "capabilities": {
            "textDocumentSync": {"openClose": true, "change": INCREMENTAL, "save": {}},
            "hoverProvider": true,
            "completionProvider": {"triggerCharacters": [".", "%"]},
            "definitionProvider": true,
            "referencesProvider": true,
            "documentHighlightProvider": true,
            "renameProvider": {"prepareProvider": true},
            "documentFormattingProvider": true,
            "codeActionProvider": {"codeActionKinds": [actions::QUICK_FIX, actions::FIX_ALL]},
            "documentSymbolProvider": true,
            "foldingRangeProvider": true,
            "inlayHintProvider": true,
        },
        "serverInfo": {"name": "ptxcheck", "version": env!("CARGO_PKG_VERSION")},
    })
}
