//! A proxy between a cache and its store that does what broken networks and
//! servers do.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What happens to what the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Takes every request, and never answers.
    BlackHole,
    /// Each part of an answer comes this much later.
    Delay(Duration),
    /// The connection is reset when the first request arrives.
    Reset,
    /// It is closed after this many bytes of answers.
    Cut(u64),
    /// One bit of each byte whose number is divisible by this is another one.
    Flip(u64),
    /// Answers with a value announce 10 GB, or what their protocol can say, and stop
    /// where the value ends.
    Announce,
    /// The same, and bytes follow for as long as the client takes them.
    Flood,
}

#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: String,
    fault: Fault,
    /// Bytes that the clients got.
    answered: AtomicU64,
}

impl Proxy {
    /// Listens on a free port of loopback for clients of `server`.
    pub fn start(server: &str, fault: Fault) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap(),
            shared: Arc::new(Shared {
                server: server.to_owned(),
                fault,
                answered: AtomicU64::new(0),
            }),
        };
        let shared = Arc::clone(&proxy.shared);
        // The thread ends with the test program.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.serve(client));
            }
        });
        proxy
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Bytes of all answers that were passed on.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// A client that goes away is no error.
    fn serve(&self, client: TcpStream) {
        let fault = self.fault;
        let Ok(server) = TcpStream::connect(&self.server) else {
            return;
        };
        match fault {
            Fault::BlackHole => drop(std::io::copy(&mut &client, &mut std::io::sink())),
            // A socket that is closed with unread bytes resets its connection.
            Fault::Reset => drop(client.peek(&mut [0])),
            _ => std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _ = std::io::copy(&mut &client, &mut &server);
                    let _ = server.shutdown(Shutdown::Both);
                });
                self.answer(fault, &server, &client);
                let _ = client.shutdown(Shutdown::Both);
                let _ = server.shutdown(Shutdown::Both);
            }),
        }
    }

    fn answer(&self, fault: Fault, mut server: &TcpStream, mut client: &TcpStream) {
        let mut part = vec![0; 64 << 10];
        let mut at = 0;
        while let Ok(length @ 1..) = server.read(&mut part) {
            let mut answer = part[..length].to_vec();
            let mut is_last = false;
            match fault {
                Fault::Delay(time) => std::thread::sleep(time),
                Fault::Cut(limit) => {
                    let left = limit.saturating_sub(at).min(length as u64);
                    is_last = left < length as u64;
                    answer.truncate(left as usize);
                }
                Fault::Flip(every) => {
                    for (n, byte) in answer.iter_mut().enumerate() {
                        if (at + n as u64 + 1).is_multiple_of(every) {
                            *byte ^= 1 << (n % 8);
                        }
                    }
                }
                Fault::Announce | Fault::Flood => {
                    if let Some(longer) = announce(&answer) {
                        answer = longer;
                        is_last = fault == Fault::Flood;
                    }
                }
                Fault::None | Fault::BlackHole | Fault::Reset => {}
            }
            at += length as u64;
            self.answered
                .fetch_add(answer.len() as u64, Ordering::Relaxed);
            if client.write_all(&answer).is_err() {
                return;
            }
            if is_last {
                break;
            }
        }
        while fault == Fault::Flood && client.write_all(&part).is_ok() {
            self.answered
                .fetch_add(part.len() as u64, Ordering::Relaxed);
        }
    }
}

/// The start of an answer with a value, of which it says that it is 10 GB long.
fn announce(answer: &[u8]) -> Option<Vec<u8>> {
    const LENGTH: &[u8] = b"10000000000";
    // memcached's binary protocol: magic, `get`; the length has 32 bits.
    if answer.starts_with(&[0x81, 0x00]) && answer.len() > 24 + 64 {
        let mut longer = answer.to_vec();
        longer[8..12].fill(0xff);
        return Some(longer);
    }
    // The text protocol has `VALUE key flags length`, HTTP a header, Redis `$length`.
    let number = if answer.starts_with(b"HTTP/") {
        let header = b"content-length: ";
        let is_header = |window: &[u8]| window.eq_ignore_ascii_case(header);
        answer.windows(header.len()).position(is_header)? + header.len()
    } else if answer.starts_with(b"VALUE ") {
        let line = answer.iter().position(|&byte| byte == b'\r')?;
        answer[..line].iter().rposition(|&byte| byte == b' ')? + 1
    } else if answer.starts_with(b"$") {
        1
    } else {
        return None;
    };
    let digits = answer[number..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    // Answers without a value are short.
    if digits < 3 {
        return None;
    }
    Some([&answer[..number], LENGTH, &answer[number + digits..]].concat())
}
