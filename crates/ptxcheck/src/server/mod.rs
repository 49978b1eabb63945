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
mod references;
mod register;
mod rename;
mod session;
mod text;
mod tree;

use std::path::PathBuf;

use lsp_server::Connection;
use lsp_types::{
    CodeActionKind, CodeActionOptions, CodeActionProviderCapability, CompletionOptions,
    FoldingRangeProviderCapability, HoverProviderCapability, InitializeResult, OneOf,
    RenameOptions, SaveOptions, ServerCapabilities, ServerInfo, TextDocumentSyncCapability,
    TextDocumentSyncKind, TextDocumentSyncOptions, TextDocumentSyncSaveOptions,
};

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
    let (connection, _threads) = Connection::stdio();
    let broken = |error: &dyn std::fmt::Display| {
        Failure::new(format!("the client does not speak the protocol: {error}"))
            .help("an editor starts this command; docs/editors.md says how")
    };
    let (id, params) = connection
        .initialize_start()
        .map_err(|error| broken(&error))?;
    let session = Session::new(&args, &params, connection.sender.clone())?;
    let result = serde_json::to_value(initialized()).map_err(|error| broken(&error))?;
    connection
        .initialize_finish(id, result)
        .map_err(|error| broken(&error))?;
    // The threads end with the process: none of them keeps anything.
    match session.serve(&connection) {
        true => Ok(VERIFIED),
        false => Ok(FAILED),
    }
}

fn initialized() -> InitializeResult {
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::INCREMENTAL),
        save: Some(TextDocumentSyncSaveOptions::SaveOptions(
            SaveOptions::default(),
        )),
        ..TextDocumentSyncOptions::default()
    };
    let capabilities = ServerCapabilities {
        text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(vec![".".to_owned(), "%".to_owned()]),
            ..CompletionOptions::default()
        }),
        definition_provider: Some(OneOf::Left(true)),
        references_provider: Some(OneOf::Left(true)),
        document_highlight_provider: Some(OneOf::Left(true)),
        rename_provider: Some(OneOf::Right(RenameOptions {
            prepare_provider: Some(true),
            work_done_progress_options: Default::default(),
        })),
        document_formatting_provider: Some(OneOf::Left(true)),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::QUICKFIX, actions::FIX_ALL]),
            ..CodeActionOptions::default()
        })),
        document_symbol_provider: Some(OneOf::Left(true)),
        folding_range_provider: Some(FoldingRangeProviderCapability::Simple(true)),
        inlay_hint_provider: Some(OneOf::Left(true)),
        ..ServerCapabilities::default()
    };
    InitializeResult {
        capabilities,
        server_info: Some(ServerInfo {
            name: "ptxcheck".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
    }
}
