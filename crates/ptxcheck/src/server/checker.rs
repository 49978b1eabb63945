//! The thread that checks documents and publishes diagnostics.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::Sender;
use lsp_server::{Message, Notification};

use super::document::Document;
use super::protocol::{
    Diagnostic, DiagnosticSeverity, DiagnosticTag, PublishDiagnosticsParams, Range,
};
use crate::linter::{self, TextFindings};
use lint::{CleanFunctions, Finding};
use ptx::diagnostic::Severity;
use ptx::{CheckOptions, check_into, diagnostic::Report, read_into};

/// Editors grow slow with more.
const MAX_PUBLISHED: usize = 1000;

/// Of a larger text only errors are looked for: rules take several times as long.
const MAX_LINTED: usize = 16 << 20;

/// A larger text is checked when its changes have paused for this long.
const CHECKED_AT_ONCE: usize = 2 << 20;
const PAUSE: Duration = Duration::from_millis(200);

/// The findings of a document, for the actions that fix them.
#[derive(Debug)]
pub struct Checked {
    pub version: i32,
    pub found: Vec<Finding>,
}

/// The side of the thread that others see.
#[derive(Clone, Debug)]
pub struct Checker {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Those to check, each once; the one that changed last is the last.
    waiting: Vec<Document>,
    /// By URI, those of the open documents.
    checked: HashMap<String, Option<Arc<Checked>>>,
    /// Documents that were closed: their diagnostics are to be taken back.
    closed: Vec<String>,
}

impl State {
    fn is_waiting(&self, uri: &str) -> bool {
        self.waiting.iter().any(|waiting| waiting.uri == uri)
    }
}

impl Checker {
    /// Starts the thread.
    pub fn start(sender: Sender<Message>) -> Checker {
        let checker = Checker {
            shared: Arc::default(),
        };
        let shared = checker.shared.clone();
        std::thread::spawn(move || {
            let mut clean = HashMap::new();
            while let Some(message) = shared.next(&mut clean) {
                if sender.send(Message::Notification(message)).is_err() {
                    break;
                }
            }
        });
        checker
    }

    /// Checks a document in place of an older version of it.
    pub fn check(&self, document: Document) {
        let mut state = locked(&self.shared.state);
        state.waiting.retain(|waiting| waiting.uri != document.uri);
        state.checked.entry(document.uri.clone()).or_default();
        state.waiting.push(document);
        self.shared.changed.notify_one();
    }

    /// Takes back what was published of a document.
    pub fn forget(&self, uri: String) {
        let mut state = locked(&self.shared.state);
        state.waiting.retain(|waiting| waiting.uri != uri);
        state.checked.remove(&uri);
        state.closed.push(uri);
        self.shared.changed.notify_one();
    }

    /// The findings of this version of a document, if they are known already.
    pub fn checked(&self, document: &Document) -> Option<Arc<Checked>> {
        let state = locked(&self.shared.state);
        let checked = state.checked.get(&document.uri)?.clone()?;
        (checked.version == document.version).then_some(checked)
    }
}

impl Shared {
    /// Waits for something to publish.
    fn next(&self, clean: &mut HashMap<String, CleanFunctions>) -> Option<Notification> {
        loop {
            let mut state = locked(&self.state);
            let document = loop {
                if let Some(uri) = state.closed.pop() {
                    clean.remove(&uri);
                    return Some(published(uri, None, Vec::new()));
                }
                match state.waiting.pop() {
                    Some(document) => break document,
                    None => {
                        let waited = self.changed.wait(state);
                        state = waited.unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            if document.text.source().len() > CHECKED_AT_ONCE {
                // Until no change comes for some time.
                let quiet = |state: &mut State| !state.is_waiting(&document.uri);
                let waited = self.changed.wait_timeout_while(state, PAUSE, quiet);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                if state.is_waiting(&document.uri) {
                    continue;
                }
            }
            drop(state);
            let clean = clean.entry(document.uri.clone()).or_default();
            let found = found_again(&document, clean).findings;
            let diagnostics = diagnostics(&document, &found);
            let mut state = locked(&self.state);
            // What has changed meanwhile is published too, or who types without a pause would see
            // nothing; its next version follows. What was closed has no findings.
            let Some(checked) = state.checked.get_mut(&document.uri) else {
                continue;
            };
            let version = document.version;
            *checked = Some(Arc::new(Checked { version, found }));
            return Some(published(document.uri, Some(version), diagnostics));
        }
    }
}

fn published(uri: String, version: Option<i32>, diagnostics: Vec<Diagnostic>) -> Notification {
    let params = PublishDiagnosticsParams {
        uri,
        version,
        diagnostics,
    };
    Notification::new("textDocument/publishDiagnostics".to_owned(), params)
}

/// The findings of a document.
pub fn found(document: &Document) -> TextFindings {
    found_again(document, &mut CleanFunctions::default())
}

/// The same with what had no findings in an earlier version of it.
fn found_again(document: &Document, clean: &mut CleanFunctions) -> TextFindings {
    let (source, settings) = (document.text.source(), &document.settings);
    if settings.excludes(&document.path) {
        return TextFindings::default();
    }
    // A fault in a rule must not end the session: the text before and after it is sound.
    let look = || {
        if source.len() > MAX_LINTED {
            errors(source, &settings.check)
        } else {
            linter::lint_again(source, &document.path, settings, clean)
        }
    };
    catch_unwind(AssertUnwindSafe(look)).unwrap_or_default()
}

fn errors(source: &str, options: &CheckOptions) -> TextFindings {
    let mut report = Report::with_limit(MAX_PUBLISHED);
    let module = read_into(source, &mut report);
    check_into(&module, source, options, &mut report);
    TextFindings {
        findings: report.into_vec().into_iter().map(Finding::from).collect(),
        ..TextFindings::default()
    }
}

fn diagnostics(document: &Document, found: &[Finding]) -> Vec<Diagnostic> {
    let listed = found.iter().take(MAX_PUBLISHED);
    let mut diagnostics: Vec<_> = listed
        .map(|finding| diagnostic(document, finding))
        .collect();
    let mut note = |message: String| {
        diagnostics.push(Diagnostic {
            range: Range::default(),
            severity: DiagnosticSeverity::INFORMATION,
            code: None,
            source: "ptxcheck",
            message,
            tags: &[],
        });
    };
    if found.len() > MAX_PUBLISHED {
        note(format!(
            "{} more findings are not shown; `ptxcheck` lists them",
            found.len() - MAX_PUBLISHED
        ));
    }
    let bytes = document.text.source().len();
    if bytes > MAX_LINTED {
        note(format!(
            "of a text of {} MB only errors are shown; `ptxcheck` runs the rules too",
            bytes >> 20
        ));
    }
    diagnostics
}

/// A finding as the protocol has it.
pub fn diagnostic(document: &Document, finding: &Finding) -> Diagnostic {
    let severity = match finding.severity {
        Severity::Error => DiagnosticSeverity::ERROR,
        Severity::Warning => DiagnosticSeverity::WARNING,
    };
    let message = match &finding.help {
        Some(help) => format!("{}\nhelp: {help}", finding.message),
        None => finding.message.clone(),
    };
    Diagnostic {
        range: document.text.range(finding.span),
        severity,
        code: Some(finding.code.to_string()),
        source: "ptxcheck",
        message,
        tags: match finding.code.letter() {
            'D' => &[DiagnosticTag::DEPRECATED],
            _ => &[],
        },
    }
}

/// A thread that panicked leaves nothing half done in these.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
