//! The thread that answers requests.
//!
//! It reads a document when the first request for it comes, and keeps the tree until a
//! request for another text comes.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};

use crossbeam_channel::Sender;
use lsp_server::{ErrorCode, Message, RequestId, Response, ResponseError};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::checker::{Checker, locked};
use super::document::Document;
use super::protocol::TextDocumentPositionParams as At;
use super::tree::{Floors, Refusal, Tree};
use super::{actions, completion, format, hints, hover, outline, references, rename};
use ptx::read;

/// The requests that wait for an answer.
pub type Pending = Arc<Mutex<HashSet<RequestId>>>;

/// A request for a document.
pub struct Job {
    pub id: RequestId,
    pub method: String,
    pub params: Value,
    pub document: Document,
}

type Answer = Result<Value, ResponseError>;

/// Reads the parameters of a request, and answers it.
type Answering = fn(&Tree<'_>, Value) -> Answer;

/// The requests that are answered, and by what.
const ANSWERS: [(&str, Answering); 12] = [
    ("textDocument/hover", |tree, params| {
        answer(params, |at: At| Ok(hover::hover(tree, at.position)))
    }),
    ("textDocument/completion", |tree, params| {
        answer(params, |at: At| Ok(completion::complete(tree, at.position)))
    }),
    ("textDocument/definition", |tree, params| {
        answer(params, |at: At| {
            Ok(references::definition(tree, at.position))
        })
    }),
    ("textDocument/references", |tree, params| {
        answer(params, |params| Ok(references::list(tree, &params)))
    }),
    ("textDocument/documentHighlight", |tree, params| {
        answer(params, |at: At| {
            Ok(references::highlight(tree, at.position))
        })
    }),
    ("textDocument/prepareRename", |tree, params| {
        answer(params, |at: At| rename::prepare(tree, at.position))
    }),
    ("textDocument/rename", |tree, params| {
        answer(params, |params| rename::rename(tree, &params))
    }),
    ("textDocument/formatting", |tree, params| {
        answer(params, |_: IgnoredAny| Ok(format::format(tree)))
    }),
    ("textDocument/codeAction", |tree, params| {
        answer(params, |params| Ok(actions::actions(tree, &params)))
    }),
    ("textDocument/documentSymbol", |tree, params| {
        answer(params, |_: IgnoredAny| Ok(outline::symbols(tree)))
    }),
    ("textDocument/foldingRange", |tree, params| {
        answer(params, |_: IgnoredAny| Ok(outline::folds(tree)))
    }),
    ("textDocument/inlayHint", |tree, params| {
        answer(params, |params| Ok(hints::hints(tree, &params)))
    }),
];

/// Whether there is an answer to a method.
pub fn has(method: &str) -> bool {
    ANSWERS.iter().any(|(known, _)| *known == method)
}

fn answer<P: DeserializeOwned, R: Serialize>(
    params: Value,
    find: impl FnOnce(P) -> Result<R, Refusal>,
) -> Answer {
    let params = serde_json::from_value(params)
        .map_err(|error| refused(ErrorCode::InvalidParams, error.to_string()))?;
    let found = find(params).map_err(|Refusal(why)| refused(ErrorCode::RequestFailed, why))?;
    serde_json::to_value(found)
        .map_err(|error| refused(ErrorCode::InternalError, error.to_string()))
}

fn refused(code: ErrorCode, message: String) -> ResponseError {
    ResponseError {
        code: code as i32,
        message,
        data: None,
    }
}

/// Starts the thread; it ends when nobody can send it jobs any more.
pub fn start(sender: Sender<Message>, checker: Checker, pending: Pending) -> mpsc::Sender<Job> {
    let (jobs, received) = mpsc::channel::<Job>();
    let thread = Thread {
        sender,
        checker,
        pending,
        received,
    };
    std::thread::spawn(move || {
        let mut next = thread.received.recv().ok();
        while let Some(job) = next {
            next = thread.of_one_text(job);
        }
    });
    jobs
}

struct Thread {
    sender: Sender<Message>,
    checker: Checker,
    pending: Pending,
    received: mpsc::Receiver<Job>,
}

impl Thread {
    /// Answers requests for the text of `job`; returns the first one for another text.
    fn of_one_text(&self, mut job: Job) -> Option<Job> {
        let text = job.document.text.clone();
        let source = text.source();
        let module = read(source).module;
        let floors = Floors::default();
        while Arc::ptr_eq(&job.document.text, &text) {
            let tree = Tree {
                document: &job.document,
                text: &text,
                source,
                module: &module,
                checker: &self.checker,
                floors: &floors,
            };
            let response = self.response(&tree, job.id, &job.method, job.params);
            self.sender.send(Message::Response(response)).ok()?;
            job = self.received.recv().ok()?;
        }
        Some(job)
    }

    fn response(&self, tree: &Tree<'_>, id: RequestId, method: &str, params: Value) -> Response {
        let of_method = ANSWERS.iter().find(|(known, _)| *known == method);
        let outcome = match of_method {
            _ if !locked(&self.pending).remove(&id) => {
                let why = "the client has cancelled it".to_owned();
                Err(refused(ErrorCode::RequestCanceled, why))
            }
            // A fault in an answer must not end the session.
            Some((_, answer)) => catch_unwind(AssertUnwindSafe(|| answer(tree, params)))
                .unwrap_or_else(|_| {
                    let why = "the server has a fault here".to_owned();
                    Err(refused(ErrorCode::InternalError, why))
                }),
            None => {
                let why = format!("this server has no {method}");
                Err(refused(ErrorCode::MethodNotFound, why))
            }
        };
        match outcome {
            Ok(result) => Response {
                id,
                result: Some(result),
                error: None,
            },
            Err(error) => Response {
                id,
                result: None,
                error: Some(error),
            },
        }
    }
}
