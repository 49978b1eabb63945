//! Counters of a service, from where it answers with the text of Prometheus.

use std::fmt;
use std::io::Read;

use super::metric::{METRICS, Metric};
use super::reading::Reading;
use terminal::failure::Failure;
use terminal::output::Escaped;

/// Seconds that an answer may take.
const PATIENCE: u64 = 5;
/// An answer is some KiB for each loader; metrics of others may stand beside them.
const MAX_BYTES: u64 = 16 << 20;
/// What stands before the names of the series.
const PREFIX: &str = "ptxkit_";

const HELP: &str =
    "give the address where the service answers with `Loader::counters().prometheus()`";

/// The address of the counters. `Debug` and messages show it without user and password.
#[derive(Clone)]
pub struct Endpoint {
    /// Without user and password.
    url: String,
    /// The header for the user and password of the address.
    authorization: Option<String>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl Endpoint {
    /// # Errors
    /// It is no address of HTTP.
    pub fn new(url: &str) -> Result<Endpoint, Failure> {
        let (url, user) = without_user(url);
        let is_host = |rest: &str| rest.starts_with(|first| !"/?#:".contains(first));
        // What is in the address goes into the request as it is.
        let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic());
        if url.strip_prefix("http://").is_some_and(is_host) && is_plain {
            let authorization =
                user.map(|user| format!("Basic {}", base64(&percent_decoded(user))));
            return Ok(Endpoint { url, authorization });
        }
        let failure = Failure::new(format!("{url} is no address of counters"));
        Err(failure.help(if url.starts_with("https://") { "https is not spoken here: forward a port to the service, and give http://localhost:PORT/metrics" } else { "give one such as http://localhost:9400/metrics; the folder of a cache is --cache DIR" }))
    }

    pub fn name(&self) -> &str {
        &self.url
    }

    /// Asks for the counters.
    ///
    /// # Errors
    /// There is no answer in time, it is none of success, or it has no counters.
    pub fn read(&self) -> Result<Reading, Failure> {
        let failure = |why: String| Failure::new(format!("{}: {why}", self.url)).help(HELP);
        let mut request = minreq::get(&self.url);
        if let Some(authorization) = &self.authorization {
            // The password is for this host only.
            request = request
                .with_header("Authorization", authorization)
                .with_follow_redirects(false);
        }
        let response = request
            .with_timeout(PATIENCE)
            .with_max_headers_size(1 << 16)
            .with_max_status_line_length(1 << 12)
            .send_lazy()
            .map_err(|error| failure(error.to_string()))?;
        if response.status_code != 200 {
            let reason = Escaped::new(&response.reason_phrase);
            return Err(failure(format!(
                "it answers {} {reason}",
                response.status_code
            )));
        }
        let mut bytes = Vec::new();
        response
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| failure(error.to_string()))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(failure(format!(
                "the answer is longer than {MAX_BYTES} bytes"
            )));
        }
        let values = parse(&String::from_utf8_lossy(&bytes));
        if values.is_empty() {
            return Err(failure(format!("the answer has no counter {PREFIX}…")));
        }
        Ok(Reading {
            values,
            modules: None,
            limit: None,
        })
    }
}

/// Splits an address, right or wrong, into its text without user and password, and those. All
/// before the last `@` is taken for them: a password may have a `/` that is not escaped.
fn without_user(url: &str) -> (String, Option<&str>) {
    let start = url.find("://").map_or(0, |at| at + 3);
    match url[start..].rfind('@') {
        Some(at) => {
            let (user, host) = url[start..].split_at(at);
            (format!("{}{}", &url[..start], &host[1..]), Some(user))
        }
        None => (url.to_owned(), None),
    }
}

/// `%40` is `@`.
fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| *first == b'%');
        let code =
            digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = &behind[if code.is_some() { 2 } else { 0 }..];
    }
    bytes
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let word = at(0) << 16 | at(1) << 8 | at(2);
        for index in 0..4 {
            text.push(if index <= group.len() {
                DIGITS[(word >> (18 - 6 * index) & 63) as usize].into()
            } else {
                '='
            });
        }
    }
    text
}

/// The metrics that the text has. Series with one name and several labels, such as those of
/// several loaders, are summed.
fn parse(text: &str) -> Vec<(&'static Metric, f64)> {
    let mut sums: Vec<Option<f64>> = vec![None; METRICS.len()];
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix(PREFIX) else {
            continue;
        };
        let end = rest.find([' ', '\t', '{']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let found = METRICS.iter().position(|metric| metric.series == name);
        let (Some(at), Some(value)) = (found, value(rest)) else {
            continue;
        };
        *sums[at].get_or_insert(0.0) += value;
    }
    let found = METRICS.iter().zip(sums);
    found
        .filter_map(|(metric, sum)| Some((metric, sum?)))
        .collect()
}

/// The value after a name: `{instance="a b"} 12 1700000000`.
fn value(rest: &str) -> Option<f64> {
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('{') {
        Some(labels) => {
            let (mut quoted, mut escaped) = (false, false);
            let end = labels.find(|c| {
                let ends = c == '}' && !quoted;
                if c == '"' && !escaped {
                    quoted = !quoted;
                }
                escaped = c == '\\' && !escaped;
                ends
            })?;
            &labels[end + 1..]
        }
        None => rest,
    };
    let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, name: &str) -> Option<f64> {
        let values = parse(text);
        let found = values.iter().find(|(metric, _)| metric.name == name);
        found.map(|(_, value)| *value)
    }

    #[test]
    fn series_are_read_and_summed() {
        let text = "# HELP ptxkit_loads_total Loads.\n\
            # TYPE ptxkit_loads_total counter\n\
            ptxkit_loads_total{gpu=\"0\"} 3\n\
            ptxkit_loads_total{gpu=\"1\",name=\"a } \\\" b\"} 4 1700000000\n\
            ptxkit_compile_seconds_total 1.5e0\r\n\
            ptxkit_modules NaN\n\
            other_loads_total 100\n\
            ptxkit_loads_total_of_others 100\n\
            ptxkit_cache_hits_total\n\
            ptxkit_cache_misses_total{unclosed 9\n";
        assert_eq!(of(text, "loads"), Some(7.0));
        assert_eq!(of(text, "compiling"), Some(1.5));
        for absent in ["live", "hits", "misses"] {
            assert_eq!(of(text, absent), None, "{absent}");
        }
    }

    #[test]
    fn the_password_is_sent_and_not_shown() {
        for (address, url, sent) in [
            (
                "http://user:pw@host:1/m",
                "http://host:1/m",
                Some("Basic dXNlcjpwdw=="),
            ),
            ("http://user@host", "http://host", Some("Basic dXNlcg==")),
            (
                "http://u:p%40%2F@host",
                "http://host",
                Some("Basic dTpwQC8="),
            ),
            (
                "http://u:p/w@x@host",
                "http://host",
                Some("Basic dTpwL3dAeA=="),
            ),
            ("http://host/m", "http://host/m", None),
        ] {
            let endpoint = Endpoint::new(address).unwrap();
            assert_eq!(
                (endpoint.name(), endpoint.authorization.as_deref()),
                (url, sent)
            );
            assert_eq!(format!("{endpoint:?}"), url);
        }
        for wrong in [
            "https://user:secret@host",
            "user:secret@host",
            "http://user:secret@",
            "http//user:secret@host/\n",
            "http://user:secret@/metrics",
        ] {
            let failure = Endpoint::new(wrong).unwrap_err().to_string();
            assert!(!failure.contains("secret"), "{failure}");
        }
    }

    #[test]
    fn only_http_is_an_address() {
        assert!(Endpoint::new("http://localhost:1/metrics").is_ok());
        for wrong in [
            "https://a/metrics",
            "http://",
            "http:///metrics",
            "ftp://a",
            "",
            "/tmp",
            "http://a/b c",
            "http://a/b\r\nHost: c",
        ] {
            assert!(Endpoint::new(wrong).is_err(), "{wrong}");
        }
    }
}
