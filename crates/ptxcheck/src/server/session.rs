//! The session with a client: its messages, and the open documents.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use crossbeam_channel::Sender;
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answers::{self, Job, Pending};
use super::checker::{Checker, locked};
use super::document::{self, Document};
use super::protocol::{
    CancelParams, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams,
};
use super::text::Text;
use crate::args::CheckArgs;
use crate::config::{Configs, Settings};
use terminal::failure::Failure;

/// The notification of changed files that a client is asked for.
const WATCHED_FILES: &str = "workspace/didChangeWatchedFiles";

/// The type of a message that is shown.
const ERROR: u8 = 1;

/// What a session keeps.
pub struct Session<'s> {
    args: &'s CheckArgs,
    configs: Configs<'s>,
    /// The settings where those of a folder cannot be used.
    otherwise: Arc<Settings>,
    sender: Sender<Message>,
    /// By URI.
    documents: HashMap<String, Document>,
    checker: Checker,
    jobs: mpsc::Sender<Job>,
    pending: Pending,
    /// The client tells of changed files when asked to.
    watches: bool,
    /// The last message that was shown, so that it is not shown for every file.
    shown: String,
}

impl<'s> Session<'s> {
    /// # Errors
    /// The file of `--config` cannot be used.
    pub fn new(
        args: &'s CheckArgs,
        params: &Value,
        sender: Sender<Message>,
    ) -> Result<Session<'s>, Failure> {
        // All that a client can do is much to read, and this alone is asked.
        let watches =
            params.pointer("/capabilities/workspace/didChangeWatchedFiles/dynamicRegistration");
        let configs = Configs::new(args)?;
        let checker = Checker::start(sender.clone());
        let pending = Pending::default();
        Ok(Session {
            args,
            otherwise: configs.otherwise(),
            configs,
            jobs: answers::start(sender.clone(), checker.clone(), pending.clone()),
            checker,
            pending,
            sender,
            documents: HashMap::new(),
            watches: watches == Some(&Value::Bool(true)),
            shown: String::new(),
        })
    }

    /// Whether the client has ended the session as it should.
    pub fn serve(mut self, connection: &Connection) -> bool {
        if self.watches {
            self.watch();
        }
        for message in &connection.receiver {
            match message {
                Message::Request(request) => match connection.handle_shutdown(&request) {
                    Ok(true) => return true,
                    Ok(false) => self.request(request),
                    // Something else than `exit` came after `shutdown`, or nothing.
                    Err(_) => return false,
                },
                Message::Notification(notification) => {
                    // A client that is wrong about one may be right about the next.
                    let _ = self.notification(notification);
                }
                Message::Response(_) => {}
            }
        }
        false
    }

    /// Asks the client to tell of changes to settings.
    fn watch(&self) {
        let registration = json!({
            "id": "settings",
            "method": WATCHED_FILES,
            "registerOptions": {"watchers": [{"globPattern": "**/ptxcheck.toml"}]},
        });
        let id = RequestId::from("settings".to_owned());
        let params = json!({"registrations": [registration]});
        let request = Request::new(id, "client/registerCapability".to_owned(), params);
        self.send(Message::Request(request));
    }

    /// Nobody listens to a client that is gone: the session ends with its input.
    fn send(&self, message: Message) {
        let _ = self.sender.send(message);
    }

    fn request(&mut self, Request { id, method, params }: Request) {
        let refuse = |code: ErrorCode, why: String| {
            self.send(Message::Response(Response::new_err(
                id.clone(),
                code as i32,
                why,
            )));
        };
        if !answers::has(&method) {
            return refuse(
                ErrorCode::MethodNotFound,
                format!("this server has no {method}"),
            );
        }
        let uri = params.pointer("/textDocument/uri").and_then(Value::as_str);
        let Some(document) = uri.and_then(|uri| self.documents.get(uri)) else {
            let uri = uri.unwrap_or("no document");
            return refuse(ErrorCode::InvalidParams, format!("{uri} is not open"));
        };
        let job = Job {
            id: id.clone(),
            method,
            params,
            document: document.clone(),
        };
        locked(&self.pending).insert(id.clone());
        if self.jobs.send(job).is_err() {
            refuse(
                ErrorCode::InternalError,
                "the server has a fault".to_owned(),
            );
        }
    }

    /// `None` where the client has sent something else than the protocol says.
    fn notification(&mut self, Notification { method, params }: Notification) -> Option<()> {
        match method.as_str() {
            "textDocument/didOpen" => {
                let opened: DidOpenTextDocumentParams = read(params)?;
                let opened = opened.text_document;
                self.open(opened.uri, opened.version, Text::new(opened.text));
            }
            "textDocument/didChange" => {
                let changed: DidChangeTextDocumentParams = read(params)?;
                let document = self.documents.get_mut(&changed.text_document.uri)?;
                let text = Arc::make_mut(&mut document.text);
                for change in changed.content_changes {
                    text.change(change);
                }
                document.version = changed.text_document.version;
                self.checker.check(document.clone());
            }
            "textDocument/didClose" => {
                let closed: DidCloseTextDocumentParams = read(params)?;
                let uri = closed.text_document.uri;
                self.documents.remove(&uri)?;
                self.checker.forget(uri);
            }
            // A file of settings that was saved may be one that nobody watches.
            "textDocument/didSave" | WATCHED_FILES => self.read_settings()?,
            "$/cancelRequest" => {
                let cancelled: CancelParams = read(params)?;
                locked(&self.pending).remove(&cancelled.id);
            }
            _ => {}
        }
        Some(())
    }

    fn open(&mut self, uri: String, version: i32, text: Text) {
        let path = document::path(&uri);
        let document = Document {
            settings: self.settings(&path),
            text: Arc::new(text),
            path,
            version,
            uri,
        };
        self.checker.check(document.clone());
        self.documents.insert(document.uri.clone(), document);
    }

    /// The settings of a file; the client shows why its own cannot be used.
    fn settings(&mut self, path: &Path) -> Arc<Settings> {
        let folder = path.parent().unwrap_or(Path::new(""));
        match self.configs.of_folder(folder) {
            Ok(settings) => settings,
            Err(failure) => {
                let message = failure.to_string();
                if self.shown != message {
                    let params = json!({"type": ERROR, "message": message});
                    let method = "window/showMessage".to_owned();
                    self.send(Message::Notification(Notification::new(method, params)));
                    self.shown = message;
                }
                self.otherwise.clone()
            }
        }
    }

    /// Reads all settings anew, and checks the documents whose settings are others.
    fn read_settings(&mut self) -> Option<()> {
        // The file of `--config` may be gone for a moment: its settings stay then.
        self.configs = Configs::new(self.args).ok()?;
        self.otherwise = self.configs.otherwise();
        let uris: Vec<String> = self.documents.keys().cloned().collect();
        for uri in uris {
            let path = self.documents.get(&uri)?.path.clone();
            let settings = self.settings(&path);
            let document = self.documents.get_mut(&uri)?;
            document.settings = settings;
            self.checker.check(document.clone());
        }
        Some(())
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Option<T> {
    serde_json::from_value(params).ok()
}
