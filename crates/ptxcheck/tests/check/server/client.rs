//! A client of the protocol, over the pipes of a server process.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

/// A server that hangs must not hang its tests.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Client {
    pub process: Child,
    input: Option<ChildStdin>,
    output: mpsc::Receiver<Value>,
    requests: i64,
    /// Notifications and requests of the server that nobody has asked for yet.
    pub others: Vec<Value>,
}

impl Client {
    /// Starts a server and says hello.
    pub fn start(command: &mut Command) -> Client {
        let mut client = Client::silent(command);
        let capabilities = json!({
            "workspace": {"didChangeWatchedFiles": {"dynamicRegistration": true}},
        });
        let hello = json!({"processId": null, "rootUri": null, "capabilities": capabilities});
        client.request("initialize", hello).unwrap();
        client.notify("initialized", json!({}));
        client
    }

    /// Starts a server.
    pub fn silent(command: &mut Command) -> Client {
        let mut process = command
            .arg("server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let (sender, received) = mpsc::channel();
        std::thread::spawn(move || {
            while let Some(message) = read(&mut output) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Client {
            process,
            input,
            output: received,
            requests: 0,
            others: Vec::new(),
        }
    }

    /// Bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    pub fn send(&mut self, message: Value) {
        let text = message.to_string();
        self.write(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request; returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.requests += 1;
        let id = self.requests;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The answer to a request, or the error.
    pub fn answer(&mut self, id: i64) -> Result<Value, Value> {
        let of_request = |message: &Value| message["id"] == id && message["method"].is_null();
        let answer = self.next(of_request);
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// The next message of which `wanted` is true.
    pub fn next(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.others.iter().position(&wanted) {
            return self.others.remove(index);
        }
        loop {
            let message = self.output.recv_timeout(PATIENCE);
            let message = message.expect("the server says nothing more");
            if wanted(&message) {
                return message;
            }
            self.others.push(message);
        }
    }

    pub fn open(&mut self, uri: &str, text: &str) {
        let document = json!({"uri": uri, "languageId": "ptx", "version": 1, "text": text});
        self.notify("textDocument/didOpen", json!({"textDocument": document}));
    }

    /// Changes of a document, each a range and its text; `null` is the whole document.
    pub fn change(&mut self, uri: &str, version: i64, changes: &[(Value, &str)]) {
        let change = |(range, text): &(Value, &str)| match range {
            Value::Null => json!({"text": text}),
            range => json!({"range": range, "text": text}),
        };
        let changes: Vec<Value> = changes.iter().map(change).collect();
        let document = json!({"uri": uri, "version": version});
        let params = json!({"textDocument": document, "contentChanges": changes});
        self.notify("textDocument/didChange", params);
    }

    /// The diagnostics of this version of a document.
    pub fn diagnostics(&mut self, uri: &str, version: i64) -> Vec<Value> {
        let published = self.next(|message| {
            message["method"] == "textDocument/publishDiagnostics"
                && message["params"]["uri"] == uri
                && message["params"]["version"] == version
        });
        published["params"]["diagnostics"]
            .as_array()
            .unwrap()
            .clone()
    }

    /// Ends the session as a client should; returns the exit status.
    pub fn end(mut self) -> Option<i32> {
        self.request("shutdown", Value::Null).unwrap();
        self.notify("exit", Value::Null);
        self.gone()
    }

    /// Closes the pipe without a word; returns the exit status.
    pub fn gone(mut self) -> Option<i32> {
        self.input = None;
        let status = self.process.wait().unwrap();
        let mut said = String::new();
        let mut errors = self.process.stderr.take().unwrap();
        errors.read_to_string(&mut said).unwrap();
        assert!(!said.contains("panicked"), "{said}");
        status.code()
    }
}

fn read(output: &mut impl BufRead) -> Option<Value> {
    let mut length = None;
    loop {
        let mut line = String::new();
        output.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", number)) => length = number.parse().ok(),
            Some(_) => {}
            None => break,
        }
    }
    let mut bytes = vec![0; length?];
    output.read_exact(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}
