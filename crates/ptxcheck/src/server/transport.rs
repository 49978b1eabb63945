//! Messages over standard input and output.
//!
//! Unlike lsp-server's own transport, it allocates no memory for the length that a client
//! announces, only for the bytes that come.

use std::io::{self, BufRead, Read};
use std::thread;

use crossbeam_channel::bounded;
use lsp_server::{Connection, Message};

use terminal::failure::Failure;

/// The longest message, in bytes. A text of 100 MB is checked.
const LONGEST_MESSAGE: u64 = 1 << 30;

/// The longest header of a message, in bytes.
const LONGEST_HEADER: u64 = 1 << 16;

/// Starts a thread that reads messages, and one that writes them. They end with the process.
pub fn stdio() -> Connection {
    let (sender, outgoing) = bounded::<Message>(0);
    let (incoming, receiver) = bounded::<Message>(0);
    thread::spawn(move || {
        let mut stdout = io::stdout().lock();
        // A client that is gone reads nothing: the session ends with its input.
        outgoing
            .into_iter()
            .try_for_each(|message| message.write(&mut stdout))
    });
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let message = match read(&mut stdin) {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(error) => {
                    return Failure::new(format!("a message cannot be read: {error}")).print();
                }
            };
            let is_exit = matches!(&message, Message::Notification(n) if n.method == "exit");
            if incoming.send(message).is_err() || is_exit {
                return;
            }
        }
    });
    Connection { sender, receiver }
}

/// The next message; `None` at the end of the input.
fn read(input: &mut impl BufRead) -> io::Result<Option<Message>> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut header = input.by_ref().take(LONGEST_HEADER);
    let mut length = None;
    loop {
        let mut line = String::new();
        if header.read_line(&mut line)? == 0 && header.limit() > 0 {
            return Ok(None);
        }
        let Some(line) = line.strip_suffix("\r\n") else {
            return Err(invalid(format!("`{}` is no header", line.trim_end())));
        };
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        if name.eq_ignore_ascii_case("Content-Length") {
            let bytes: Option<u64> = value.trim().parse().ok();
            length =
                Some(bytes.ok_or_else(|| invalid(format!("`{line}` has no number of bytes")))?);
        }
    }
    let length = length.ok_or_else(|| invalid("it has no Content-Length".to_owned()))?;
    if length > LONGEST_MESSAGE {
        let limit = LONGEST_MESSAGE >> 30;
        let why = format!("it has {length} bytes, and the limit is {limit} GiB");
        return Err(invalid(why));
    }
    let mut bytes = Vec::new();
    input.by_ref().take(length).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| invalid(format!("it is no message: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(text: &str) -> String {
        read(&mut text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn messages_follow_each_other() {
        let exit = "{\"method\":\"exit\"}";
        let text =
            format!("Content-Length: 17\r\n\r\n{exit}content-length:17\r\nX: y\r\n\r\n{exit}");
        let mut input = text.as_bytes();
        for _ in 0..2 {
            let message = read(&mut input).unwrap().unwrap();
            assert!(matches!(message, Message::Notification(n) if n.method == "exit"));
        }
        assert!(read(&mut input).unwrap().is_none());
    }

    #[test]
    fn lengths_are_limited() {
        let error = failed("Content-Length: 99999999999999\r\n\r\n{}");
        assert_eq!(error, "it has 99999999999999 bytes, and the limit is 1 GiB");
        // Within the limit, and no memory is taken for it.
        assert!(failed("Content-Length: 1073741824\r\n\r\n{}").contains("end of file"));
        assert!(failed("Content-Length: -1\r\n\r\n{}").contains("no number of bytes"));
        assert!(failed("Content-Length: 99999999999999999999999\r\n\r\n").contains("no number"));
        assert!(failed("A: b\r\n\r\n{}").contains("no Content-Length"));
        assert!(failed("Content-Length: 2\r\n\r\n[]").contains("no message"));
        assert!(failed(&"x".repeat(1 << 17)).ends_with("is no header"));
        assert!(failed(&"A: b\r\n".repeat(1 << 15)).ends_with("is no header"));
    }
}
