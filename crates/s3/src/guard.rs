//! Access control: authenticates keys by Signature Version 4, and checks their permissions.
use crate::document::Document;
use crate::front::Signer;
use crate::keys::Keys;
use crate::offered;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Error, S3ErrorCode, S3Result};
use std::sync::{Arc, OnceLock};

/// Accepts the signatures of keys.
#[derive(Clone)]
pub(crate) struct Guard(pub(crate) Arc<Keys>);

/// Extension of a request with its operation and key, for the log and the metrics.
#[derive(Clone, Default)]
pub(crate) struct Known(Arc<OnceLock<Who>>);

/// The operation and access key of a request.
pub(crate) struct Who {
    pub(crate) operation: String,
    pub(crate) access_key: String,
}

impl Known {
    /// Operation and key of the request, if already known.
    pub(crate) fn get(&self) -> Option<&Who> {
        self.0.get()
    }
}

/// Prefixes of the names of operations that a read-only key may request.
const READS: [&str; 3] = ["Get", "Head", "List"];

#[async_trait::async_trait]
impl S3Auth for Guard {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        match self.0.get(access_key) {
            Some(key) => Ok(key.secret.clone()),
            None => Err(S3ErrorCode::InvalidAccessKeyId.into()),
        }
    }
}

#[async_trait::async_trait]
impl S3Access for Guard {
    /// Checks that the key of a request may do the operation, and that its options are offered. Notes both for the log.
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let denied = |why: &'static str| Err(S3Error::with_message(S3ErrorCode::AccessDenied, why));
        let operation = context.s3_op().name().to_owned();
        let signer = context.extensions_mut().get::<Signer>();
        let Some(access_key) = signer.map(|signer| signer.0.clone()) else {
            return denied("nothing is served without a signature");
        };
        let is_change = !READS.iter().any(|begin| operation.starts_with(begin));
        let key = self.0.get(&access_key);
        let offered = offered::check(&operation, context.uri(), context.headers());
        if let Some(known) = context.extensions_mut().get::<Known>() {
            let _ = known.0.set(Who { operation: operation.clone(), access_key });
        }
        match key {
            None => return Err(S3ErrorCode::InvalidAccessKeyId.into()),
            Some(key) if key.read_only && is_change => {
                return denied("this key is for reading only");
            }
            Some(_) => offered?,
        }
        if let Some(document) = context.extensions_mut().get::<Document>().cloned() {
            document.begin(&operation, context.headers());
        }
        Ok(())
    }
}
