//! The stores: those that `scripts/remote-servers` started, and Redis servers of a
//! test's own. They are asked in their own protocols, past the library.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ptxkit::cache::{Key, SCHEMA};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    Redis,
    Memcached,
    S3,
}

pub const STORES: [Store; 3] = [Store::Redis, Store::Memcached, Store::S3];

impl Store {
    /// Where it listens; `None` where nobody started it.
    pub fn address(self) -> Option<String> {
        let variable = match self {
            Store::Redis => "PTXKIT_TEST_REDIS",
            Store::Memcached => "PTXKIT_TEST_MEMCACHED",
            Store::S3 => "PTXKIT_TEST_S3",
        };
        std::env::var(variable).ok()
    }

    /// The URL of the server at `host` for a cache of its own.
    pub fn url(self, host: &str, prefix: &str) -> String {
        match self {
            Store::Redis => format!("redis://{host}/0?prefix={prefix}"),
            Store::Memcached => format!("memcached://{host}?prefix={prefix}"),
            Store::S3 => {
                format!("s3://{BUCKET}?region=us-east-1&endpoint=http://{host}&prefix={prefix}")
            }
        }
    }

    /// The value of `key`, as the server has it.
    pub fn get(self, key: &str) -> Option<Vec<u8>> {
        let address = self.address().unwrap();
        match self {
            Store::Redis => redis(&address, &[b"GET", key.as_bytes()]).unwrap(),
            Store::Memcached => memcached_get(&address, key),
            Store::S3 => s3(&address, "GET", key, b""),
        }
    }

    pub fn set(self, key: &str, value: &[u8]) {
        let address = self.address().unwrap();
        match self {
            Store::Redis => {
                redis(&address, &[b"SET", key.as_bytes(), value]).unwrap();
            }
            Store::Memcached => memcached_set(&address, key, value),
            Store::S3 => drop(s3(&address, "PUT", key, value).unwrap()),
        }
    }
}

/// The name of a blob in its store, of a cache with this URL.
pub fn name(url: &str, key: &Key) -> String {
    let option = |name: &str| {
        let mut options = url.split(['?', '&']);
        options.find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    };
    let prefix = option("prefix").unwrap_or_default();
    let namespace = option("namespace").unwrap_or("default");
    format!("{prefix}/{namespace}/v{SCHEMA}/{key}")
}

/// The servers that were started, or none with a word about it.
pub fn stores() -> impl Iterator<Item = Store> {
    let started = STORES.into_iter().filter(|one| one.address().is_some());
    if started.clone().next().is_none() {
        eprintln!("left out: no servers; scripts/remote-servers starts them");
    }
    started
}

/// A command of Redis, and its answer: a text, a number or nothing.
pub fn redis(address: &str, words: &[&[u8]]) -> std::io::Result<Option<Vec<u8>>> {
    let stream = TcpStream::connect(address)?;
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend(format!("${}\r\n", word.len()).bytes());
        request.extend(*word);
        request.extend(b"\r\n");
    }
    (&stream).write_all(&request)?;
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line.trim_end();
    match line.split_at_checked(1) {
        Some(("+" | ":", text)) => Ok(Some(text.as_bytes().to_vec())),
        Some(("$", "-1")) => Ok(None),
        Some(("$", length)) => {
            let mut value = vec![0; length.parse().map_err(std::io::Error::other)?];
            reader.read_exact(&mut value)?;
            Ok(Some(value))
        }
        _ => Err(std::io::Error::other(line.to_owned())),
    }
}

fn memcached_get(address: &str, key: &str) -> Option<Vec<u8>> {
    let stream = TcpStream::connect(address).unwrap();
    write!(&stream, "get {key}\r\n").unwrap();
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let length = line.strip_prefix("VALUE ")?.trim_end().rsplit(' ').next()?;
    let mut value = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut value).unwrap();
    Some(value)
}

fn memcached_set(address: &str, key: &str, value: &[u8]) {
    let stream = TcpStream::connect(address).unwrap();
    write!(&stream, "set {key} 0 0 {}\r\n", value.len()).unwrap();
    (&stream).write_all(value).unwrap();
    (&stream).write_all(b"\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    assert_eq!(line, "STORED\r\n");
}

/// A request for an object of the bucket; `None` unless it succeeds. moto wants to see
/// a signature, and does not check it.
fn s3(address: &str, method: &str, key: &str, body: &[u8]) -> Option<Vec<u8>> {
    let stream = TcpStream::connect(address).unwrap();
    write!(
        &stream,
        "{method} /{BUCKET}/{key} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Length: {}\r\nAuthorization: AWS4-HMAC-SHA256 \
         Credential=test/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n\r\n",
        body.len()
    )
    .unwrap();
    (&stream).write_all(body).unwrap();
    let mut answer = Vec::new();
    (&stream).read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let is_done = answer.starts_with(b"HTTP/1.1 200");
    is_done.then(|| answer.split_off(end + 4))
}

pub const BUCKET: &str = "ptxkit";

/// A Redis server of a test's own; stopped when it is dropped.
#[derive(Debug)]
pub struct Redis {
    process: Child,
    port: u16,
    options: Vec<String>,
}

impl Redis {
    /// Starts one with these options; `None` where Redis is not installed.
    pub fn start(options: &[&str]) -> Option<Redis> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let options: Vec<String> = options.iter().map(|&word| word.to_owned()).collect();
        let process = spawn(port, &options)?;
        let server = Redis {
            process,
            port,
            options,
        };
        server.wait();
        Some(server)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again, empty.
    pub fn restart(&mut self) {
        self.process = spawn(self.port, &self.options).unwrap();
        self.wait();
    }

    fn wait(&self) {
        let started = Instant::now();
        while TcpStream::connect(self.address()).is_err() {
            assert!(started.elapsed() < Duration::from_secs(30), "{self:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(port: u16, options: &[String]) -> Option<Child> {
    let started = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--port", &port.to_string()])
        .args(options)
        .current_dir(Path::new("/tmp"))
        .stdout(Stdio::null())
        .spawn();
    match started {
        Ok(process) => Some(process),
        Err(error) => {
            eprintln!("left out: redis-server cannot be started: {error}");
            None
        }
    }
}
