//! The client of the store, which is OpenDAL's.

use opendal::{Buffer, ErrorKind, Operator};

use super::address::{Address, StoreKind};

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Fault {
    Store(opendal::Error),
    /// It has more bytes than any blob that is asked for.
    TooLarge,
}

impl From<opendal::Error> for Fault {
    fn from(error: opendal::Error) -> Fault {
        Fault::Store(error)
    }
}

/// Something in the store.
#[derive(Debug)]
pub(super) struct Object {
    pub name: String,
    pub size: u64,
}

/// Opens the client; nothing is sent yet.
pub(super) fn open(address: &Address) -> opendal::Result<Operator> {
    #[cfg(feature = "remote-tls")]
    install_tls();
    // One arm for each feature.
    #[allow(unused_imports, reason = "no feature may be on")]
    use opendal::services;
    match address.kind {
        #[cfg(feature = "remote-redis")]
        StoreKind::Redis => Operator::from_iter::<services::Redis>(address.options()),
        #[cfg(feature = "remote-memcached")]
        StoreKind::Memcached => Operator::from_iter::<services::Memcached>(address.options()),
        #[cfg(feature = "remote-s3")]
        StoreKind::S3 => Operator::from_iter::<services::S3>(address.options()),
        #[cfg(feature = "remote-gcs")]
        StoreKind::Gcs => Operator::from_iter::<services::Gcs>(address.options()),
        #[cfg(feature = "remote-azblob")]
        StoreKind::Azblob => Operator::from_iter::<services::Azblob>(address.options()),
        #[cfg(feature = "remote-webdav")]
        StoreKind::Webdav => Operator::from_iter::<services::Webdav>(address.options()),
        #[cfg(feature = "remote-fs")]
        StoreKind::Fs => Operator::from_iter::<services::Fs>(address.options()),
        #[allow(unreachable_patterns, reason = "all features may be on")]
        _ => Err(opendal::Error::new(
            ErrorKind::Unsupported,
            address.kind.feature(),
        )),
    }
}

/// The clients take the process's TLS provider. A program that has one keeps it.
#[cfg(feature = "remote-tls")]
fn install_tls() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error says that another thread was faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    // OpenDAL's own installs it only with the TLS provider of its choice.
    #[cfg(feature = "remote-http")]
    opendal_http_transport_reqwest::install_default();
}

/// Reads an object of at most `limit` bytes; `None` where there is none. A client may
/// announce any length: memory is taken for what has come.
pub(super) async fn read(
    operator: Operator,
    path: String,
    limit: u64,
) -> Result<Option<Vec<u8>>, Fault> {
    use futures_util::TryStreamExt;

    let absent = |error: opendal::Error| match error.kind() {
        ErrorKind::NotFound => Ok(None),
        _ => Err(Fault::Store(error)),
    };
    let stream = match operator.reader(&path).await {
        Ok(reader) => reader.into_stream(..).await,
        Err(error) => return absent(error),
    };
    let mut stream = match stream {
        Ok(stream) => stream,
        Err(error) => return absent(error),
    };
    let mut whole = Vec::new();
    loop {
        let part: Buffer = match stream.try_next().await {
            Ok(Some(part)) => part,
            Ok(None) => return Ok(Some(whole)),
            Err(error) => return absent(error),
        };
        if (whole.len() + part.len()) as u64 > limit {
            return Err(Fault::TooLarge);
        }
        // Some clients hand over all of it at once, which need not be copied.
        if whole.is_empty() {
            whole = part.to_bytes().into()
        } else {
            part.for_each(|bytes| whole.extend_from_slice(&bytes))
        }
    }
}

/// Writes an object, in place of one that may be there.
pub(super) async fn write(operator: Operator, path: String, bytes: Vec<u8>) -> Result<(), Fault> {
    operator.write(&path, bytes).await?;
    Ok(())
}

pub(super) async fn exists(operator: Operator, path: String) -> Result<bool, Fault> {
    Ok(operator.exists(&path).await?)
}

/// The objects in a folder; `None` where the store cannot list.
pub(super) async fn list(operator: Operator, folder: String) -> Result<Option<Vec<Object>>, Fault> {
    if !operator.info().capability().list {
        return Ok(None);
    }
    let entries = operator.list(&folder).await?;
    let objects = entries.iter().filter(|entry| entry.metadata().is_file());
    let object = |entry: &opendal::Entry| Object {
        name: entry.name().to_owned(),
        size: entry.metadata().content_length(),
    };
    Ok(Some(objects.map(object).collect()))
}
